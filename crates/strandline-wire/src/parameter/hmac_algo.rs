//! Requested HMAC Algorithm (HMAC-ALGO): the algorithms that the peer uses (RFC 4895 section 3.3).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 32772                  │ length = 4 + 2 * N            │
//! ├───────────────────────────────┼───────────────────────────────┤
//! │ HMAC identifier 1             │ HMAC identifier 2             │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ HMAC identifiers 3 to N, by preference                        ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use core::fmt;

use super::raw::RawParameter;
use crate::error::ParameterError;

/// Parameter type of Requested HMAC Algorithm.
pub const KIND: u16 = 0x8004;

/// Length of one identifier in bytes.
const ELEMENT_LEN: usize = 2;

/// HMAC Identifier of SHA-1, which every sender of the list includes.
pub const HMAC_SHA1: u16 = 1;
/// HMAC Identifier of SHA-256.
pub const HMAC_SHA256: u16 = 3;

/// List of HMAC identifiers. The most preferred one is first.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct HmacIdentifiers<'a> {
    list: &'a [[u8; ELEMENT_LEN]],
}

impl HmacIdentifiers<'static> {
    /// SHA-1 only.
    pub const SHA1: Self = Self { list: &[HMAC_SHA1.to_be_bytes()] };
    /// SHA-256, otherwise SHA-1.
    pub const SHA256_SHA1: Self = Self { list: &[HMAC_SHA256.to_be_bytes(), HMAC_SHA1.to_be_bytes()] };
    /// SHA-1, otherwise SHA-256.
    pub const SHA1_SHA256: Self = Self { list: &[HMAC_SHA1.to_be_bytes(), HMAC_SHA256.to_be_bytes()] };
}

impl<'a> HmacIdentifiers<'a> {
    pub(super) const fn parse(raw: &RawParameter<'a>) -> Result<Self, ParameterError> {
        match raw.value.as_chunks() {
            (list, []) => Ok(Self { list }),
            _ => Err(ParameterError::NotAMultiple {
                kind: raw.kind,
                element: ELEMENT_LEN,
                found: raw.value.len(),
            }),
        }
    }

    /// Returns the identifiers in the order in which they are listed. A peer may list any numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u16> + Clone + use<'a> {
        self.list.iter().map(|&bytes| u16::from_be_bytes(bytes))
    }

    /// Returns the list as it is encoded, without padding.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.list.as_flattened()
    }
}

impl fmt::Debug for HmacIdentifiers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
