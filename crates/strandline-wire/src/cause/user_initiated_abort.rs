//! User-Initiated Abort: the application aborted the association (RFC 9260 section 3.3.10.12).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 12               │ cause length = 4 + bytes      │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ upper layer abort reason: any bytes                           ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawCause;

/// Cause code of User-Initiated Abort.
pub const CODE: u16 = 12;

pub(super) const fn parse<'a>(raw: &RawCause<'a>) -> &'a [u8] {
    raw.value
}
