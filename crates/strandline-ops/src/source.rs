//! The unit of limits for each source.

use std::net::IpAddr;

/// The part of an address that one customer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Network {
    /// An IPv4 address.
    V4(u32),
    /// The first 64 bits of an IPv6 address.
    V6(u64),
}

impl Network {
    /// Returns that of an address. An IPv4-mapped IPv6 address is an IPv4 address.
    #[must_use]
    pub fn of(source: IpAddr) -> Self {
        match source.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

#[cfg(test)]
mod tests;
