//! No User Data: a DATA chunk carried no user data (RFC 9260 section 3.3.10.9).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 9                │ cause length = 8              │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ TSN of the DATA chunk                                         │
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawCause;
use crate::error::CauseError;
use crate::number::Tsn;

/// Cause code of No User Data.
pub const CODE: u16 = 9;

pub(super) fn parse(raw: &RawCause<'_>) -> Result<Tsn, CauseError> {
    raw.exactly().map(|bytes| Tsn(u32::from_be_bytes(*bytes)))
}
