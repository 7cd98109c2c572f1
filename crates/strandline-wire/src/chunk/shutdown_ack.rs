//! SHUTDOWN ACK: all data was received and neither side has more to send (RFC 9260 section 3.3.9).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 8      │ 0             │ length = 4                    │
//! └───────────────┴───────────────┴───────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::encode::Encode;
use crate::error::ChunkError;

/// A SHUTDOWN ACK chunk, which has no value.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct ShutdownAck;

impl ShutdownAck {
    pub(crate) fn parse(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        raw.exactly::<0>().map(|_| Self)
    }
}

impl Encode for ShutdownAck {
    fn kind(&self) -> u8 {
        kind::SHUTDOWN_ACK
    }
    fn value_len(&self) -> usize {
        0
    }
    fn encode_value(&self, _out: &mut [u8]) {}
}
