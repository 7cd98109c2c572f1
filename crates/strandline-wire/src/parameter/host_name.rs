//! Host Name Address: deprecated; a receiver aborts the association (RFC 9260 section 3.3.2.1.4).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 11                     │ length = 4 + name             │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ host name, with at least one zero byte at its end             ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawParameter;

/// Parameter type of Host Name Address.
pub const KIND: u16 = 11;

pub(super) const fn parse<'a>(raw: &RawParameter<'a>) -> &'a [u8] {
    raw.value
}
