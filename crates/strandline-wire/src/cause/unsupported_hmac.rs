//! Unsupported HMAC Identifier: an AUTH chunk used an algorithm that its receiver has not listed (RFC 4895 section
//! 4.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 261              │ cause length = 6              │
//! ├───────────────────────────────┼───────────────────────────────┤
//! │ HMAC identifier               │ padding                       │
//! └───────────────────────────────┴───────────────────────────────┘
//! ```

use super::raw::RawCause;
use crate::error::CauseError;

/// Cause code of Unsupported HMAC Identifier.
pub const CODE: u16 = 0x0105;

/// Returns the HMAC identifier.
pub(super) fn parse(raw: &RawCause<'_>) -> Result<u16, CauseError> {
    raw.exactly().map(|bytes| u16::from_be_bytes(*bytes))
}
