//! Supported Address Types: the address types that the sender of an INIT supports (RFC 9260 section
//! 3.3.2.1.5).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 12                     │ length = 4 + 2 * N            │
//! ├───────────────────────────────┼───────────────────────────────┤
//! │ address type 1: 5, 6          │ address type 2                │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ address types 3 to N                                          ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use core::fmt;

use super::raw::RawParameter;
use super::{ipv4_address, ipv6_address};
use crate::error::ParameterError;

/// Parameter type of Supported Address Types.
pub const KIND: u16 = 12;

/// Length of one address type in bytes.
const ELEMENT_LEN: usize = 2;

/// List of address types, each the type of an address parameter.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct SupportedAddressTypes<'a> {
    types: &'a [[u8; ELEMENT_LEN]],
}

impl SupportedAddressTypes<'static> {
    /// IPv4 only.
    pub const IPV4: Self = Self { types: &[ipv4_address::KIND.to_be_bytes()] };
    /// IPv6 only.
    pub const IPV6: Self = Self { types: &[ipv6_address::KIND.to_be_bytes()] };
    /// IPv4 and IPv6.
    pub const BOTH: Self =
        Self { types: &[ipv4_address::KIND.to_be_bytes(), ipv6_address::KIND.to_be_bytes()] };
}

impl<'a> SupportedAddressTypes<'a> {
    pub(super) fn parse(raw: &RawParameter<'a>) -> Result<Self, ParameterError> {
        match raw.value.as_chunks() {
            (types, []) => Ok(Self { types }),
            _ => Err(ParameterError::NotAMultiple {
                kind: raw.kind,
                element: ELEMENT_LEN,
                found: raw.value.len(),
            }),
        }
    }

    /// Returns the address types in the order in which they are listed. A peer may list any numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u16> + Clone + use<'a> {
        self.types.iter().map(|&bytes| u16::from_be_bytes(bytes))
    }

    /// Returns whether IPv4 is listed.
    #[must_use]
    pub fn has_ipv4(&self) -> bool {
        self.iter().any(|kind| kind == ipv4_address::KIND)
    }

    /// Returns whether IPv6 is listed.
    #[must_use]
    pub fn has_ipv6(&self) -> bool {
        self.iter().any(|kind| kind == ipv6_address::KIND)
    }

    pub(super) const fn as_bytes(&self) -> &'a [u8] {
        self.types.as_flattened()
    }
}

impl fmt::Debug for SupportedAddressTypes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
