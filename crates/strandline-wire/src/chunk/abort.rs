//! ABORT: ends the association immediately (RFC 9260 section 3.3.7).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬─────────────┬─┬───────────────────────────────┐
//! │ type = 6      │ 0           │T│ length = 4 + bytes of causes  │
//! ├───────────────┴─────────────┴─┴───────────────────────────────┤
//! ╎ no error cause or several                                     ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::cause::Causes;
use crate::encode::{Encode, put};

/// The T bit, in ABORT and in SHUTDOWN COMPLETE.
pub(super) const TAG_REFLECTED: u8 = 1;

/// An ABORT chunk.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Abort<'a> {
    /// T bit: the packet carries the Verification Tag of the packet that it answers, not the one that its
    /// receiver expects.
    pub tag_reflected: bool,
    /// Error causes: the reasons for the ABORT.
    pub causes: Causes<'a>,
}

impl<'a> Abort<'a> {
    pub(crate) const fn parse(raw: &RawChunk<'a>) -> Self {
        Self { tag_reflected: raw.flags & TAG_REFLECTED != 0, causes: Causes::new(raw.value) }
    }
}

impl Encode for Abort<'_> {
    fn kind(&self) -> u8 {
        kind::ABORT
    }
    fn flags(&self) -> u8 {
        if self.tag_reflected { TAG_REFLECTED } else { 0 }
    }
    fn value_len(&self) -> usize {
        self.causes.as_bytes().len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        put(out, self.causes.as_bytes());
    }
}
