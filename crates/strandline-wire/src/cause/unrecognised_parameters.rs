//! Unrecognized Parameters: returns the parameters of an INIT ACK that its receiver doesn't know (RFC 9260
//! section 3.3.10.8).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 8                │ cause length = 4 + bytes      │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ the parameters: type, length, value and padding each          ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawCause;
use crate::parameter::Parameters;

/// Cause code of Unrecognized Parameters.
pub const CODE: u16 = 8;

pub(super) const fn parse<'a>(raw: &RawCause<'a>) -> Parameters<'a> {
    Parameters::new(raw.value)
}
