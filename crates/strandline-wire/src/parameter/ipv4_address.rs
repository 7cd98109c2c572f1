//! IPv4 Address: an additional address of the sender (RFC 9260 section 3.3.2.1.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 5                      │ length = 8                    │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ IPv4 address                                                  │
//! └───────────────────────────────────────────────────────────────┘
//! ```

use core::net::Ipv4Addr;

use super::raw::RawParameter;
use crate::error::ParameterError;

/// Parameter type of IPv4 Address.
pub const KIND: u16 = 5;

pub(super) fn parse(raw: &RawParameter<'_>) -> Result<Ipv4Addr, ParameterError> {
    raw.exactly::<4>().map(|octets| Ipv4Addr::from(*octets))
}
