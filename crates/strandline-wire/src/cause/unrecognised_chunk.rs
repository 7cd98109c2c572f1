//! Unrecognized Chunk Type: gives back a chunk that the sender does not know (RFC 9260 section 3.3.10.6).
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

/// Code of Unrecognized Chunk Type.
pub const CODE: u16 = 6;

pub(super) const fn parse<'a>(raw: &RawCause<'a>) -> &'a [u8] {
    raw.value
}
