//! SSN/TSN Reset Request: asks for a reset of the TSNs and of the SSNs of all streams in both directions (RFC 6525
//! section 4.3).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 15                     │ length = 8                    │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ re-configuration request sequence number                      │
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::super::raw::RawParameter;
use super::put_numbers;
use crate::encode::EncodeTlv;
use crate::error::ParameterError;
use crate::number::RequestNumber;

/// Parameter type of SSN/TSN Reset Request.
pub const KIND: u16 = 15;

/// An SSN/TSN Reset Request parameter.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct SsnTsnReset {
    /// Sequence number of this request.
    pub request: RequestNumber,
}

impl SsnTsnReset {
    pub(super) fn parse(raw: &RawParameter<'_>) -> Result<Self, ParameterError> {
        raw.exactly::<4>().map(|bytes| Self { request: RequestNumber(u32::from_be_bytes(*bytes)) })
    }
}

impl EncodeTlv for SsnTsnReset {
    fn kind(&self) -> u16 {
        KIND
    }
    fn value_len(&self) -> usize {
        4
    }
    fn encode_value(&self, out: &mut [u8]) {
        put_numbers(out, &[self.request.0], &[]);
    }
}
