//! Stale Cookie: the cookie is genuine but has expired (RFC 9260 section 3.3.10.3).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 3                │ cause length = 8              │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ measure of staleness in us, 0 if the sender doesn't tell      │
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawCause;
use crate::error::CauseError;

/// Cause code of Stale Cookie.
pub const CODE: u16 = 3;

/// Returns the staleness in microseconds.
pub(super) fn parse(raw: &RawCause<'_>) -> Result<u32, CauseError> {
    raw.exactly().map(|bytes| u32::from_be_bytes(*bytes))
}
