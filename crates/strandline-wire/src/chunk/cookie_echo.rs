//! COOKIE ECHO: returns the State Cookie and completes the set-up (RFC 9260 section 3.3.11).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 10     │ 0             │ length = 4 + bytes of cookie  │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! ╎ cookie: the value of the State Cookie parameter               ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::encode::{Encode, put};

/// A COOKIE ECHO chunk.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct CookieEcho<'a> {
    /// The cookie, exactly as in the INIT ACK.
    pub cookie: &'a [u8],
}

impl<'a> CookieEcho<'a> {
    pub(crate) const fn parse(raw: &RawChunk<'a>) -> Self {
        Self { cookie: raw.value }
    }
}

impl Encode for CookieEcho<'_> {
    fn kind(&self) -> u8 {
        kind::COOKIE_ECHO
    }
    fn value_len(&self) -> usize {
        self.cookie.len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        put(out, self.cookie);
    }
}
