//! Heartbeat Info: opaque data of a HEARTBEAT that its HEARTBEAT ACK returns (RFC 9260 section 3.3.5).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 1                      │ length = 4 + info             │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ info: only its sender understands it                          ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawParameter;

/// Parameter type of Heartbeat Info.
pub const KIND: u16 = 1;

pub(super) const fn parse<'a>(raw: &RawParameter<'a>) -> &'a [u8] {
    raw.value
}
