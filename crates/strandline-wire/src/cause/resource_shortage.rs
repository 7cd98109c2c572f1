//! Operation Refused Due to Resource Shortage: the receiver of an ASCONF lacks the resources (RFC 5061 section 4.3.2).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 0x00a1           │ cause length = 4 + parameter  │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ the refused parameter as the ASCONF had it                    ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawCause;
use crate::parameter::Parameters;

/// Cause code of Operation Refused Due to Resource Shortage.
pub const CODE: u16 = 0x00a1;

pub(super) const fn parse<'a>(raw: &RawCause<'a>) -> Parameters<'a> {
    Parameters::new(raw.value)
}
