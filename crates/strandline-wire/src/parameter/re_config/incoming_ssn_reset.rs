//! Incoming SSN Reset Request: asks the receiver to reset some or all of its outgoing streams (RFC 6525 section 4.2).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 14                     │ length = 8 + 2 * N            │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ re-configuration request sequence number                      │
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
use crate::number::RequestNumber;

/// Parameter type of Incoming SSN Reset Request.
pub const KIND: u16 = 14;

/// Length of the fixed field in bytes.
const FIXED_LEN: usize = 4;

/// An Incoming SSN Reset Request parameter.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct IncomingSsnReset<'a> {
    /// Sequence number of this request.
    pub request: RequestNumber,
    /// The streams to reset, as the receiver numbers its outgoing ones.
    pub streams: StreamList<'a>,
}

impl<'a> IncomingSsnReset<'a> {
    pub(super) fn parse(raw: &RawParameter<'a>) -> Result<Self, ParameterError> {
        let (&request, list) = raw.at_least::<FIXED_LEN>()?;
        let request = RequestNumber(u32::from_be_bytes(request));
        Ok(Self { request, streams: StreamList::parse(raw, list)? })
    }
}

impl EncodeTlv for IncomingSsnReset<'_> {
    fn kind(&self) -> u16 {
        KIND
    }
    fn value_len(&self) -> usize {
        FIXED_LEN + self.streams.as_bytes().len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        put_numbers(out, &[self.request.0], self.streams.as_bytes());
    }
}
