//! Out of Resource: the sender lacks the resources for the association (RFC 9260 section 3.3.10.4).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 4                │ cause length = 4              │
//! └───────────────────────────────┴───────────────────────────────┘
//! ```

use super::raw::RawCause;
use crate::error::CauseError;

/// Cause code of Out of Resource.
pub const CODE: u16 = 4;

pub(super) fn parse(raw: &RawCause<'_>) -> Result<(), CauseError> {
    raw.exactly::<0>().map(|_| ())
}
