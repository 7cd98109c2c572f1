//! Unrecognized Parameter: an INIT ACK returns a parameter that its sender didn't know (RFC 9260 section
//! 3.3.3.1.2).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 8                      │ length = 4 + parameter        │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ the parameter from the INIT: its type, length and value       ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawParameter;

/// Parameter type of Unrecognized Parameter.
pub const KIND: u16 = 8;

pub(super) const fn parse<'a>(raw: &RawParameter<'a>) -> &'a [u8] {
    raw.value
}
