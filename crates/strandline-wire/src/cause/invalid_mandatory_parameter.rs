//! Invalid Mandatory Parameter: a field of an INIT or INIT ACK has a forbidden value (RFC 9260 section
//! 3.3.10.7).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 7                │ cause length = 4              │
//! └───────────────────────────────┴───────────────────────────────┘
//! ```

use super::raw::RawCause;
use crate::error::CauseError;

/// Cause code of Invalid Mandatory Parameter.
pub const CODE: u16 = 7;

pub(super) fn parse(raw: &RawCause<'_>) -> Result<(), CauseError> {
    raw.exactly::<0>().map(|_| ())
}
