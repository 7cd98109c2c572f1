//! ASCONF: requests to change the addresses of an association (RFC 5061 section 4.1.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 0xC1   │ 0             │ length = 8 + parameters       │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! │ sequence number                                               │
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ address parameter: an address of the sender                   ╎
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ ASCONF parameters                                             ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use core::net::IpAddr;

use super::kind;
use super::raw::RawChunk;
use crate::consts::{TLV_HEADER_LEN, padded};
use crate::encode::{Encode, EncodeTlv, put};
use crate::error::ChunkError;
use crate::number::AsconfNumber;
use crate::parameter::{Parameter, Parameters};
use crate::tlv::{TlvWriter, after};

/// An ASCONF chunk.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Asconf<'a> {
    /// Sequence number.
    pub number: AsconfNumber,
    /// An address of the sender that belongs to the association, by which the receiver can find it. The unspecified
    /// address stands for none.
    pub address: IpAddr,
    /// The requests, not checked yet. [`RawParameter::parse_asconf`](crate::RawParameter::parse_asconf) parses each.
    pub parameters: Parameters<'a>,
}

impl<'a> Asconf<'a> {
    pub(crate) fn parse(raw: &RawChunk<'a>) -> Result<Self, ChunkError> {
        let (number, rest) = raw.at_least::<4>()?;
        let short =
            ChunkError::TooShort { kind: raw.kind, minimum: 4 + TLV_HEADER_LEN, found: raw.value.len() };
        let first = Parameters::new(rest).iter().next().ok_or(short)?;
        let first = first.map_err(|error| ChunkError::Framing { kind: raw.kind, error })?;
        let address = first.parse_address();
        let address = address.map_err(|error| ChunkError::Address { kind: raw.kind, error })?;
        Ok(Self {
            number: AsconfNumber(u32::from_be_bytes(*number)),
            address,
            parameters: Parameters::new(after(rest, Some(first.as_bytes().len()))),
        })
    }
}

impl Encode for Asconf<'_> {
    fn kind(&self) -> u8 {
        kind::ASCONF
    }
    fn value_len(&self) -> usize {
        4 + padded(TLV_HEADER_LEN + Parameter::from(self.address).value_len())
            + self.parameters.as_bytes().len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        let Some((number, rest)) = out.split_first_chunk_mut::<4>() else { return };
        *number = self.number.0.to_be_bytes();
        let len = TLV_HEADER_LEN + Parameter::from(self.address).value_len();
        let Some((address, parameters)) = rest.split_at_mut_checked(len) else { return };
        let _ = TlvWriter::new(address).push(&Parameter::from(self.address));
        put(parameters, self.parameters.as_bytes());
    }
}
