//! Zones of link-local IPv6 addresses (RFC 4007): an address of `fe80::/10` identifies a host only together with its
//! link.
//!
//! Outside the engine, an address with a zone is a `SocketAddrV6` with a scope identifier. Inside, the zone is stored
//! in the address itself, in bits 16 to 47, which are zero in every valid link-local address (RFC 4291 section
//! 2.5.6). All look-ups, comparisons, cookies and caches therefore distinguish zones. Addresses of wider scope have
//! no zone, so a flow label or a scope identifier cannot make one of them differ from itself. BSD kernels store zones
//! in the same way. The engine converts addresses on input (`inward`) and on output (`outward`, [`bare`]).

use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bits 16 to 47 of an address, which hold the zone.
const SHIFT: u32 = 80;
const ZONE: u128 = 0xffff_ffff << SHIFT;
/// Bits 10 to 63, which are zero in valid link-local addresses.
const MUST_BE_ZERO: u128 = 0x003f_ffff_ffff_ffff << 64;

/// Returns the address if it is a link-local IPv6 address.
fn link_local(address: IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some(v6),
        _ => None,
    }
}

/// Returns the look-up key of an address: a link-local IPv6 address contains its zone, and any other address is
/// unchanged. An invalid link-local address becomes the unspecified address.
#[must_use]
pub fn key(address: SocketAddr) -> IpAddr {
    let zone = match address {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    key_of(address.ip(), zone)
}

/// Returns the key of an address in a zone, as [`key`] does.
#[must_use]
pub fn key_of(address: IpAddr, zone: u32) -> IpAddr {
    match link_local(address) {
        None => address,
        Some(v6) if v6.to_bits() & MUST_BE_ZERO != 0 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        Some(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() | u128::from(zone) << SHIFT)),
    }
}

/// Returns the key of the local address that a packet from `source` came to: a link-local one is on the link that the
/// packet arrived on.
pub(crate) fn arrived_at(destination: IpAddr, source: IpAddr) -> IpAddr {
    named_by(destination, source).unwrap_or(destination)
}

/// True if a packet to `destination` arrives at an own address: one without a zone is on any link.
pub(crate) fn is_at(own: IpAddr, destination: IpAddr) -> bool {
    let (link, arrived_on) = (zone_of(own), zone_of(destination));
    is_same(own, destination) && (link == 0 || arrived_on == 0 || link == arrived_on)
}

/// True if two addresses are the same, whatever their form and zone.
pub(crate) fn is_same(a: IpAddr, b: IpAddr) -> bool {
    bare(a).to_canonical() == bare(b).to_canonical()
}

/// Returns the zone of an address that [`key`] returned; 0 if it has none.
#[must_use]
pub fn zone_of(key: IpAddr) -> u32 {
    link_local(key).map_or(0, |v6| (v6.to_bits() >> SHIFT) as u32)
}

/// Returns the address without its zone, as packets carry it.
#[must_use]
pub fn bare(key: IpAddr) -> IpAddr {
    match link_local(key) {
        Some(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !ZONE)),
        None => key,
    }
}

/// Returns the key of an address that a packet from `source` lists. A link-local one is on the link that the packet
/// arrived on. Returns `None` if that link is unknown or the address is invalid.
#[must_use]
pub fn named_by(address: IpAddr, source: IpAddr) -> Option<IpAddr> {
    match (link_local(address), link_local(source)) {
        (None, _) => Some(address),
        (Some(_), Some(_)) => Some(key_of(address, zone_of(source))).filter(|key| !key.is_unspecified()),
        (Some(_), None) => None,
    }
}

/// True if an own address may be listed to a peer. A link-local one may be listed only on its link; without a zone it
/// is on any link.
#[must_use]
pub fn on_link_of(own: IpAddr, peer: IpAddr) -> bool {
    let zone = zone_of(own);
    link_local(own).is_none() || link_local(peer).is_some() && (zone == 0 || zone == zone_of(peer))
}

/// Converts a socket address to the engine's form: the zone is in the address, without scope identifier and flow
/// label.
pub(crate) fn inward(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(v6) => SocketAddr::new(key(address), v6.port()),
    }
}

/// Converts a socket address to the form outside the engine: the zone is the scope identifier.
pub(crate) fn outward(address: SocketAddr) -> SocketAddr {
    match (zone_of(address.ip()), bare(address.ip())) {
        (1.., IpAddr::V6(bare)) => SocketAddrV6::new(bare, address.port(), 0, zone_of(address.ip())).into(),
        _ => address,
    }
}

#[cfg(test)]
mod tests;
