//! SHUTDOWN COMPLETE: answers a SHUTDOWN ACK; the association has ended (RFC 9260 section 3.3.13).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬─────────────┬─┬───────────────────────────────┐
//! │ type = 14     │ 0           │T│ length = 4                    │
//! └───────────────┴─────────────┴─┴───────────────────────────────┘
//! ```

use super::abort::TAG_REFLECTED;
use super::kind;
use super::raw::RawChunk;
use crate::encode::Encode;
use crate::error::ChunkError;

/// A SHUTDOWN COMPLETE chunk.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct ShutdownComplete {
    /// T bit: the packet carries the Verification Tag of the packet that it answers, not the one that its
    /// receiver expects.
    pub tag_reflected: bool,
}

impl ShutdownComplete {
    pub(crate) fn parse(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        raw.exactly::<0>().map(|_| Self { tag_reflected: raw.flags & TAG_REFLECTED != 0 })
    }
}

impl Encode for ShutdownComplete {
    fn kind(&self) -> u8 {
        kind::SHUTDOWN_COMPLETE
    }
    fn flags(&self) -> u8 {
        if self.tag_reflected { TAG_REFLECTED } else { 0 }
    }
    fn value_len(&self) -> usize {
        0
    }
    fn encode_value(&self, _out: &mut [u8]) {}
}
