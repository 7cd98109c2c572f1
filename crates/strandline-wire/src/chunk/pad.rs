//! PAD: makes a packet longer and carries nothing (RFC 4820 section 3). A path MTU probe consists of
//! HEARTBEAT and PAD (RFC 8899 section 6.2.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 132    │ 0             │ length = 4 + padding data     │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! ╎ padding data, zeros here, any from a peer                     ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::encode::Encode;

/// A PAD chunk.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Pad {
    /// Length of the padding data in bytes, at most 65,531: four less than the length of the chunk if that is
    /// a multiple of four.
    pub padding_len: usize,
}

impl Pad {
    pub(crate) const fn parse(raw: &RawChunk<'_>) -> Self {
        Self { padding_len: raw.value.len() }
    }
}

impl Encode for Pad {
    fn kind(&self) -> u8 {
        kind::PAD
    }
    fn value_len(&self) -> usize {
        self.padding_len
    }
    fn encode_value(&self, out: &mut [u8]) {
        out.fill(0);
    }
}
