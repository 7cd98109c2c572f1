//! IPv6 Address: an additional address of the sender (RFC 9260 section 3.3.2.1.2).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 6                      │ length = 20                   │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ IPv6 address, bytes 0 to 3                                    │
//! ├───────────────────────────────────────────────────────────────┤
//! │ bytes 4 to 7                                                  │
//! ├───────────────────────────────────────────────────────────────┤
//! │ bytes 8 to 11                                                 │
//! ├───────────────────────────────────────────────────────────────┤
//! │ bytes 12 to 15                                                │
//! └───────────────────────────────────────────────────────────────┘
//! ```

use core::net::Ipv6Addr;

use super::raw::RawParameter;
use crate::error::ParameterError;

/// Parameter type of IPv6 Address.
pub const KIND: u16 = 6;

pub(super) fn parse(raw: &RawParameter<'_>) -> Result<Ipv6Addr, ParameterError> {
    raw.exactly::<16>().map(|octets| Ipv6Addr::from(*octets))
}
