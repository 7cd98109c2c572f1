//! State Cookie: the state that the sender of an INIT ACK needs to create the association later (RFC 9260
//! section 3.3.3.1.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 7                      │ length = 4 + cookie           │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ cookie: only its sender understands it                        ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawParameter;

/// Parameter type of State Cookie.
pub const KIND: u16 = 7;

pub(super) const fn parse<'a>(raw: &RawParameter<'a>) -> &'a [u8] {
    raw.value
}
