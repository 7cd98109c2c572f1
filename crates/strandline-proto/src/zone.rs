//! Zones of link-local IPv6 addresses (RFC 4007): an address of `fe80::/10` names a host only together with the link that
//! it is on.
//!
//! Outside the engine an address with a zone is a `SocketAddrV6` with a scope identifier. Inside, the zone stands in the
//! address itself: in bits 16 to 47, which are zero in every link-local address that is valid (RFC 4291 section 2.5.6).
//! So every look-up, comparison, cookie and cache knows zones, and addresses of wider scope have none: a flow label or a scope
//! identifier can't make one of those differ from itself. BSD kernels keep zones in the same way. The engine converts what
//! comes in (`inward`) and what goes out (`outward`, [`bare`]).

use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bits 16 to 47 of an address, where the zone stands.
const SHIFT: u32 = 80;
const ZONE: u128 = 0xffff_ffff << SHIFT;
/// Bits 10 to 63, which are zero in valid link-local addresses.
const MUST_BE_ZERO: u128 = 0x003f_ffff_ffff_ffff << 64;

/// The link-local IPv6 address that this is.
fn link_local(address: IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some(v6),
        _ => None,
    }
}

/// The address with its zone inside, as look-ups need it: any other than a link-local IPv6 address as it is. A link-local
/// address that is not valid becomes the unspecified address.
#[must_use]
pub fn key(address: SocketAddr) -> IpAddr {
    let zone = match address {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    key_of(address.ip(), zone)
}

/// The address in a zone, as [`key`] returns it.
#[must_use]
pub fn key_of(address: IpAddr, zone: u32) -> IpAddr {
    match link_local(address) {
        None => address,
        Some(v6) if v6.to_bits() & MUST_BE_ZERO != 0 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        Some(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() | u128::from(zone) << SHIFT)),
    }
}

/// The zone of an address that [`key`] returned; 0 if it has none.
#[must_use]
pub fn zone_of(key: IpAddr) -> u32 {
    link_local(key).map_or(0, |v6| (v6.to_bits() >> SHIFT) as u32)
}

/// The address without its zone, as packets carry it.
#[must_use]
pub fn bare(key: IpAddr) -> IpAddr {
    match link_local(key) {
        Some(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !ZONE)),
        None => key,
    }
}

/// An address that a packet from `source` names, as [`key`] would return it. A link-local one is on the link that the packet
/// came by; `None` if it came by none, or if the address is not valid.
#[must_use]
pub fn named_by(address: IpAddr, source: IpAddr) -> Option<IpAddr> {
    match (link_local(address), link_local(source)) {
        (None, _) => Some(address),
        (Some(_), Some(_)) => Some(key_of(address, zone_of(source))).filter(|key| !key.is_unspecified()),
        (Some(_), None) => None,
    }
}

/// True if an own address may be named to a peer: a link-local one only on its link. Without a zone it is on any link.
#[must_use]
pub fn on_link_of(own: IpAddr, peer: IpAddr) -> bool {
    let zone = zone_of(own);
    link_local(own).is_none() || link_local(peer).is_some() && (zone == 0 || zone == zone_of(peer))
}

/// A socket address as the engine keeps it: the zone in the address, no scope identifier and no flow label.
pub(crate) fn inward(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(v6) => SocketAddr::new(key(address), v6.port()),
    }
}

/// A socket address as those outside know it: the zone as scope identifier.
pub(crate) fn outward(address: SocketAddr) -> SocketAddr {
    match (zone_of(address.ip()), bare(address.ip())) {
        (1.., IpAddr::V6(bare)) => SocketAddrV6::new(bare, address.port(), 0, zone_of(address.ip())).into(),
        _ => address,
    }
}

#[cfg(test)]
mod tests;
