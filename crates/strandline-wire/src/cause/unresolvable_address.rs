//! Unresolvable Address: an address parameter that the sender cannot use (RFC 9260 section 3.3.10.5).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 5                │ cause length = 4 + bytes      │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ the whole address parameter: type, length and value           ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawCause;

/// Cause code of Unresolvable Address.
pub const CODE: u16 = 5;

pub(super) const fn parse<'a>(raw: &RawCause<'a>) -> &'a [u8] {
    raw.value
}
