//! CWR: the sender of data has reduced its congestion window in answer to an ECNE (RFC 4960 appendix A; RFC
//! 9260 reserves the type).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 13     │ 0             │ length = 8                    │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! │ lowest TSN number                                             │
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::encode::{Encode, put};
use crate::error::ChunkError;
use crate::number::Tsn;

/// A CWR chunk.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Cwr {
    /// The lowest TSN of the ECNE that this chunk answers.
    pub lowest_tsn: Tsn,
}

impl Cwr {
    pub(crate) fn parse(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Ok(Self { lowest_tsn: Tsn(u32::from_be_bytes(*raw.exactly()?)) })
    }
}

impl Encode for Cwr {
    fn kind(&self) -> u8 {
        kind::CWR
    }
    fn value_len(&self) -> usize {
        4
    }
    fn encode_value(&self, out: &mut [u8]) {
        put(out, &self.lowest_tsn.0.to_be_bytes());
    }
}
