//! COOKIE ACK: the COOKIE ECHO was accepted and the association is established (RFC 9260 section 3.3.12).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 11     │ 0             │ length = 4                    │
//! └───────────────┴───────────────┴───────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::encode::Encode;
use crate::error::ChunkError;

/// A COOKIE ACK chunk, which has no value.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct CookieAck;

impl CookieAck {
    pub(crate) fn parse(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        raw.exactly::<0>().map(|_| Self)
    }
}

impl Encode for CookieAck {
    fn kind(&self) -> u8 {
        kind::COOKIE_ACK
    }
    fn value_len(&self) -> usize {
        0
    }
    fn encode_value(&self, _out: &mut [u8]) {}
}
