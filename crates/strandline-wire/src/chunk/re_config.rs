//! RE-CONFIG: requests to reconfigure streams, and responses (RFC 6525 section 3.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 130    │ 0             │ length = 4 + parameters       │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! ╎ one re-configuration parameter or two                         ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::encode::{Encode, put};
use crate::parameter::Parameters;

/// A RE-CONFIG chunk. [`Combination::of`](crate::parameter::re_config::Combination::of) parses its parameters.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct ReConfig<'a> {
    /// The parameters, not checked yet.
    pub parameters: Parameters<'a>,
}

impl<'a> ReConfig<'a> {
    pub(crate) const fn parse(raw: &RawChunk<'a>) -> Self {
        Self { parameters: Parameters::new(raw.value) }
    }
}

impl Encode for ReConfig<'_> {
    fn kind(&self) -> u8 {
        kind::RE_CONFIG
    }
    fn value_len(&self) -> usize {
        self.parameters.as_bytes().len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        put(out, self.parameters.as_bytes());
    }
}
