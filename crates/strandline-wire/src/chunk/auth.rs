//! AUTH: a message authentication code of the chunks that follow it (RFC 4895 section 5.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 15     │ 0             │ length = 8 + MAC              │
//! ├───────────────┴───────────────┼───────────────────────────────┤
//! │ shared key identifier         │ HMAC identifier               │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ MAC, as long as the HMAC identifier says                      ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::encode::{Encode, put};
use crate::error::ChunkError;

/// Length of the fields before the MAC in bytes, chunk header excluded.
const FIELDS_LEN: usize = 4;

/// An AUTH chunk. The MAC covers the chunk itself, with zeros in place of the MAC, and all that follows it in the
/// packet.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Auth<'a> {
    /// The Shared Key Identifier: which endpoint pair shared key was used.
    pub key: u16,
    /// The HMAC Identifier: which algorithm was used.
    pub hmac: u16,
    /// The MAC.
    pub mac: &'a [u8],
}

impl<'a> Auth<'a> {
    pub(crate) fn parse(raw: &RawChunk<'a>) -> Result<Self, ChunkError> {
        let ([k0, k1, h0, h1], mac) = raw.at_least::<FIELDS_LEN>()?;
        Ok(Self { key: u16::from_be_bytes([*k0, *k1]), hmac: u16::from_be_bytes([*h0, *h1]), mac })
    }
}

impl Encode for Auth<'_> {
    fn kind(&self) -> u8 {
        kind::AUTH
    }
    fn value_len(&self) -> usize {
        FIELDS_LEN + self.mac.len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        let Some((fields, mac)) = out.split_first_chunk_mut::<FIELDS_LEN>() else { return };
        let ([k0, k1], [h0, h1]) = (self.key.to_be_bytes(), self.hmac.to_be_bytes());
        *fields = [k0, k1, h0, h1];
        put(mac, self.mac);
    }
}
