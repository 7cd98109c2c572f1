//! ECNE: packets arrived with the CE mark (RFC 4960 appendix A; RFC 9260 reserves the type). The number of
//! packets is from draft-stewart-tsvwg-sctpecn: usrsctp discards a packet whose ECNE lacks it, and Linux
//! ignores it.
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 12     │ 0             │ length = 8 or 12              │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! │ lowest TSN number                                             │
//! ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┤
//! ╎ packets marked since CWR came                                 ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::encode::{Encode, put};
use crate::error::ChunkError;
use crate::number::Tsn;

/// An ECNE chunk.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Ecne {
    /// Lowest TSN of the packet that was marked.
    pub lowest_tsn: Tsn,
    /// Number of packets marked since the latest CWR; `None` if the chunk lacks the field.
    pub packets: Option<u32>,
}

impl Ecne {
    pub(crate) fn parse(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        if let [a, b, c, d, packets @ ..] = raw.value
            && let Ok(packets) = packets.try_into()
        {
            let lowest_tsn = Tsn(u32::from_be_bytes([*a, *b, *c, *d]));
            return Ok(Self { lowest_tsn, packets: Some(u32::from_be_bytes(packets)) });
        }
        Ok(Self { lowest_tsn: Tsn(u32::from_be_bytes(*raw.exactly()?)), packets: None })
    }
}

impl Encode for Ecne {
    fn kind(&self) -> u8 {
        kind::ECNE
    }
    fn value_len(&self) -> usize {
        if self.packets.is_some() { 8 } else { 4 }
    }
    fn encode_value(&self, out: &mut [u8]) {
        let (tsn, rest) = out.split_at_mut(4.min(out.len()));
        put(tsn, &self.lowest_tsn.0.to_be_bytes());
        if let Some(packets) = self.packets {
            put(rest, &packets.to_be_bytes());
        }
    }
}
