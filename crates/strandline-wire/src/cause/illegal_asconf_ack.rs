//! Association Aborted Due to Illegal ASCONF-ACK: an ASCONF-ACK answered nothing that was sent (RFC 5061
//! section 4.3.4).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 0x00A3           │ cause length = 4              │
//! └───────────────────────────────┴───────────────────────────────┘
//! ```

use super::raw::RawCause;
use crate::error::CauseError;

/// Cause code of Association Aborted Due to Illegal ASCONF-ACK.
pub const CODE: u16 = 0x00a3;

pub(super) fn parse(raw: &RawCause<'_>) -> Result<(), CauseError> {
    raw.exactly::<0>().map(|_| ())
}
