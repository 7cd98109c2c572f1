//! Request Refused - No Authorization: the receiver of an ASCONF does not allow the request (RFC 5061 section 4.3.5).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 0x00a4           │ cause length = 4 + parameter  │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ the refused parameter as the ASCONF had it                    ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawCause;
use crate::parameter::Parameters;

/// Cause code of Request Refused - No Authorization.
pub const CODE: u16 = 0x00a4;

pub(super) const fn parse<'a>(raw: &RawCause<'a>) -> Parameters<'a> {
    Parameters::new(raw.value)
}
