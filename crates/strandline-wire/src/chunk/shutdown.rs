//! SHUTDOWN: the sender has no more data to send (RFC 9260 section 3.3.8).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 7      │ 0             │ length = 8                    │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! │ cumulative TSN ack                                            │
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::encode::{Encode, put};
use crate::error::ChunkError;
use crate::number::Tsn;

/// A SHUTDOWN chunk.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Shutdown {
    /// Cumulative TSN Ack: the sender has received this TSN and all before it. TSNs beyond a gap are not
    /// reported.
    pub cumulative_tsn: Tsn,
}

impl Shutdown {
    pub(crate) fn parse(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Ok(Self { cumulative_tsn: Tsn(u32::from_be_bytes(*raw.exactly()?)) })
    }
}

impl Encode for Shutdown {
    fn kind(&self) -> u8 {
        kind::SHUTDOWN
    }
    fn value_len(&self) -> usize {
        4
    }
    fn encode_value(&self, out: &mut [u8]) {
        put(out, &self.cumulative_tsn.0.to_be_bytes());
    }
}
