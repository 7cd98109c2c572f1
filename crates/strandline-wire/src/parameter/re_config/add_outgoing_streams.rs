//! Add Outgoing Streams Request: the sender adds outgoing streams (RFC 6525 section 4.5).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 17                     │ length = 12                   │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ re-configuration request sequence number                      │
//! ├───────────────────────────────┬───────────────────────────────┤
//! │ number of new streams         │ reserved                      │
//! └───────────────────────────────┴───────────────────────────────┘
//! ```

use super::super::raw::RawParameter;
use super::put_numbers;
use crate::encode::EncodeTlv;
use crate::error::ParameterError;
use crate::number::RequestNumber;

/// Parameter type of Add Outgoing Streams Request.
pub const KIND: u16 = 17;

/// An Add Outgoing Streams Request parameter.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct AddOutgoingStreams {
    /// Sequence number of this request.
    pub request: RequestNumber,
    /// Number of streams to add behind the existing ones.
    pub streams: u16,
}

impl AddOutgoingStreams {
    pub(super) fn parse(raw: &RawParameter<'_>) -> Result<Self, ParameterError> {
        let &[a, b, c, d, e, f, _, _] = raw.exactly::<8>()?;
        let request = RequestNumber(u32::from_be_bytes([a, b, c, d]));
        Ok(Self { request, streams: u16::from_be_bytes([e, f]) })
    }
}

impl EncodeTlv for AddOutgoingStreams {
    fn kind(&self) -> u16 {
        KIND
    }
    fn value_len(&self) -> usize {
        8
    }
    fn encode_value(&self, out: &mut [u8]) {
        put_numbers(out, &[self.request.0, u32::from(self.streams) << 16], &[]);
    }
}
