//! Protocol Violation: the peer broke a rule that has no cause of its own (RFC 9260 section 3.3.10.13).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 13               │ cause length = 4 + bytes      │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ additional information: any bytes                             ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawCause;

/// Cause code of Protocol Violation.
pub const CODE: u16 = 13;

pub(super) const fn parse<'a>(raw: &RawCause<'a>) -> &'a [u8] {
    raw.value
}
