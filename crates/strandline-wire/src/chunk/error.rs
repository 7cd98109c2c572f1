//! ERROR: reports conditions that don't by themselves end the association (RFC 9260 section 3.3.10).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 9      │ 0             │ length = 4 + causes           │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! ╎ one error cause or several                                    ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::cause::Causes;
use crate::encode::{Encode, put};

/// An ERROR chunk.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Error<'a> {
    /// Error causes that are reported.
    pub causes: Causes<'a>,
}

impl<'a> Error<'a> {
    pub(crate) const fn parse(raw: &RawChunk<'a>) -> Self {
        Self { causes: Causes::new(raw.value) }
    }
}

impl Encode for Error<'_> {
    fn kind(&self) -> u8 {
        kind::ERROR
    }
    fn value_len(&self) -> usize {
        self.causes.as_bytes().len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        put(out, self.causes.as_bytes());
    }
}
