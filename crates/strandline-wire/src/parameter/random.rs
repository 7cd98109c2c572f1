//! Random: a random number from which keys are derived (RFC 4895 section 3.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 32770                  │ length = 4 + number           │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ random number; an association needs one of 32 bytes           ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawParameter;

/// Parameter type of Random.
pub const KIND: u16 = 0x8002;

pub(super) const fn parse<'a>(raw: &RawParameter<'a>) -> &'a [u8] {
    raw.value
}
