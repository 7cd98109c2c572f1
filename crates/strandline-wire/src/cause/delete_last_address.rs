//! Request to Delete Last Remaining IP Address: an ASCONF asked to delete the only address of its sender (RFC
//! 5061 section 4.3.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 0x00a0           │ cause length = 4 + parameter  │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ the refused parameter as the ASCONF had it                    ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawCause;
use crate::parameter::Parameters;

/// Cause code of Request to Delete Last Remaining IP Address.
pub const CODE: u16 = 0x00a0;

pub(super) const fn parse<'a>(raw: &RawCause<'a>) -> Parameters<'a> {
    Parameters::new(raw.value)
}
