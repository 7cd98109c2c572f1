//! Outgoing SSN Reset Request: the sender resets some or all of its outgoing streams (RFC 6525 section 4.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 13                     │ length = 16 + 2 * N           │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ re-configuration request sequence number                      │
//! ├───────────────────────────────────────────────────────────────┤
//! │ re-configuration response sequence number                     │
//! ├───────────────────────────────────────────────────────────────┤
//! │ sender's last assigned TSN                                    │
//! ├───────────────────────────────┬───────────────────────────────┤
//! │ stream number 1               │ stream number 2               │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ stream numbers 3 to N                                         ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::super::raw::RawParameter;
use super::{StreamList, put_numbers};
use crate::encode::EncodeTlv;
use crate::error::ParameterError;
use crate::number::{RequestNumber, Tsn};

/// Parameter type of Outgoing SSN Reset Request.
pub const KIND: u16 = 13;

/// Length of the fixed fields in bytes.
const FIXED_LEN: usize = 12;

/// An Outgoing SSN Reset Request parameter.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct OutgoingSsnReset<'a> {
    /// Sequence number of this request.
    pub request: RequestNumber,
    /// Sequence number of the Incoming SSN Reset Request that this one answers; otherwise the next one that is
    /// expected of the peer, less 1.
    pub response: RequestNumber,
    /// The last TSN that the sender assigned.
    pub last_tsn: Tsn,
    /// The streams to reset.
    pub streams: StreamList<'a>,
}

impl<'a> OutgoingSsnReset<'a> {
    pub(super) fn parse(raw: &RawParameter<'a>) -> Result<Self, ParameterError> {
        let (&[a, b, c, d, e, f, g, h, i, j, k, l], list) = raw.at_least::<FIXED_LEN>()?;
        Ok(Self {
            request: RequestNumber(u32::from_be_bytes([a, b, c, d])),
            response: RequestNumber(u32::from_be_bytes([e, f, g, h])),
            last_tsn: Tsn(u32::from_be_bytes([i, j, k, l])),
            streams: StreamList::parse(raw, list)?,
        })
    }
}

impl EncodeTlv for OutgoingSsnReset<'_> {
    fn kind(&self) -> u16 {
        KIND
    }
    fn value_len(&self) -> usize {
        FIXED_LEN + self.streams.as_bytes().len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        put_numbers(out, &[self.request.0, self.response.0, self.last_tsn.0], self.streams.as_bytes());
    }
}
