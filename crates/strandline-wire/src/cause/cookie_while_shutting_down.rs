//! Cookie Received While Shutting Down: a COOKIE ECHO arrived in SHUTDOWN-ACK-SENT (RFC 9260 section
//! 3.3.10.10).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 10               │ cause length = 4              │
//! └───────────────────────────────┴───────────────────────────────┘
//! ```

use super::raw::RawCause;
use crate::error::CauseError;

/// Cause code of Cookie Received While Shutting Down.
pub const CODE: u16 = 10;

pub(super) fn parse(raw: &RawCause<'_>) -> Result<(), CauseError> {
    raw.exactly::<0>().map(|_| ())
}
