//! Restart of an Association with New Encapsulation Port: an INIT came from a different UDP port than the
//! association's packets (draft-tuexen-tsvwg-sctp-udp-encaps-cons section 4).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 14               │ cause length = 8              │
//! ├───────────────────────────────┼───────────────────────────────┤
//! │ current encapsulation port    │ new encapsulation port        │
//! └───────────────────────────────┴───────────────────────────────┘
//! ```

use super::raw::RawCause;
use crate::error::CauseError;

/// Cause code of Restart of an Association with New Encapsulation Port, as the draft suggests it.
pub const CODE: u16 = 14;

/// Returns the current port and the new one; 0 means no encapsulation.
pub(super) fn parse(raw: &RawCause<'_>) -> Result<(u16, u16), CauseError> {
    raw.exactly()
        .map(|[c0, c1, n0, n1]: &[u8; 4]| (u16::from_be_bytes([*c0, *c1]), u16::from_be_bytes([*n0, *n1])))
}
