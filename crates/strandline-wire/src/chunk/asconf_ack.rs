//! ASCONF-ACK: what became of the requests of an ASCONF (RFC 5061 section 4.1.2).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 0x80   │ 0             │ length = 8 + responses        │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! │ sequence number of the ASCONF                                 │
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ responses: Error Cause Indication or Success Indication       ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::encode::{Encode, put};
use crate::error::ChunkError;
use crate::number::AsconfNumber;
use crate::parameter::Parameters;

/// An ASCONF-ACK chunk. Requests without a response were performed, unless one before them was refused.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct AsconfAck<'a> {
    /// Sequence number of the ASCONF.
    pub number: AsconfNumber,
    /// The responses, not checked yet. [`RawParameter::parse_asconf`](crate::RawParameter::parse_asconf) parses each.
    pub responses: Parameters<'a>,
}

impl<'a> AsconfAck<'a> {
    pub(crate) fn parse(raw: &RawChunk<'a>) -> Result<Self, ChunkError> {
        let (number, responses) = raw.at_least::<4>()?;
        Ok(Self { number: AsconfNumber(u32::from_be_bytes(*number)), responses: Parameters::new(responses) })
    }
}

impl Encode for AsconfAck<'_> {
    fn kind(&self) -> u8 {
        kind::ASCONF_ACK
    }
    fn value_len(&self) -> usize {
        4 + self.responses.as_bytes().len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        let Some((number, responses)) = out.split_first_chunk_mut::<4>() else { return };
        *number = self.number.0.to_be_bytes();
        put(responses, self.responses.as_bytes());
    }
}
