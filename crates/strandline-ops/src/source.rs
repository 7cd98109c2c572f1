//! The unit of limits for each source.

use std::net::IpAddr;

/// The part of an address that one customer has: an IPv4 address, or an IPv6 network (its first 64 bits).
#[must_use]
pub fn network(source: IpAddr) -> u64 {
    match source.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}
