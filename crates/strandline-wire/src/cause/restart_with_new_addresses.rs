//! Restart of an Association with New Addresses: refuses an INIT that would add addresses (RFC 9260 section
//! 3.3.10.11).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 11               │ cause length = 4 + bytes      │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ the new address parameters as the INIT had them               ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawCause;
use crate::parameter::Parameters;

/// Cause code of Restart of an Association with New Addresses.
pub const CODE: u16 = 11;

pub(super) const fn parse<'a>(raw: &RawCause<'a>) -> Parameters<'a> {
    Parameters::new(raw.value)
}
