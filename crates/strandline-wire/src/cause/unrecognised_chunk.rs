//! Unrecognized Chunk Type: returns a chunk of a type that the sender doesn't know (RFC 9260 section
//! 3.3.10.6).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 6                │ cause length = 4 + bytes      │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ the whole chunk: type, flags, length and value                ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawCause;

/// Cause code of Unrecognized Chunk Type.
pub const CODE: u16 = 6;

pub(super) const fn parse<'a>(raw: &RawCause<'a>) -> &'a [u8] {
    raw.value
}
