//! The host's own addresses, for multi-homing.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::sys::interfaces;
use crate::sys::netlink::{ADDRESS_GROUPS, Changes};

/// The scope in which an address can be used, ordered from narrow to wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Within the host: 127.0.0.0/8, ::1.
    Loopback,
    /// On one link: 169.254.0.0/16, fe80::/10.
    LinkLocal,
    /// In a private network: 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, fc00::/7.
    Private,
    /// Everywhere.
    Global,
}

impl Scope {
    /// Returns the scope of a unicast address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) if v4.is_loopback() => Self::Loopback,
            IpAddr::V4(v4) if v4.is_link_local() => Self::LinkLocal,
            IpAddr::V4(v4) if v4.is_private() || is_shared(v4) => Self::Private,
            IpAddr::V6(v6) if v6.is_loopback() => Self::Loopback,
            IpAddr::V6(v6) if v6.is_unicast_link_local() => Self::LinkLocal,
            IpAddr::V6(v6) if v6.is_unique_local() => Self::Private,
            _ => Self::Global,
        }
    }
}

/// Returns whether an address is in the space that a provider shares with its customers (RFC 6598).
fn is_shared(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    first == 100 && second & 0xc0 == 64
}

/// A unicast address of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalAddress {
    /// The address.
    pub address: IpAddr,
    /// The scope in which the address can be used.
    pub scope: Scope,
    /// Name of the interface that has it.
    pub interface: String,
    /// Index of that interface, which is the scope id of link-local addresses.
    pub interface_index: u32,
}

/// Notifications that the list of [`local_addresses`] may have changed. Wait until the descriptor can be
/// read, then call [`take`](Self::take).
#[derive(Debug)]
pub struct AddressChanges(Changes);

impl AddressChanges {
    /// Begins to listen in the network namespace of the thread.
    ///
    /// # Errors
    ///
    /// If the system has no rtnetlink socket for this process.
    pub fn open() -> io::Result<Self> {
        Changes::open(ADDRESS_GROUPS).map(Self)
    }

    /// Returns whether addresses or interfaces have changed since the last call, or may have. Doesn't block.
    #[must_use]
    pub fn take(&self) -> bool {
        self.0.has_changed()
    }
}

impl AsFd for AddressChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for AddressChanges {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// Returns the unicast addresses of the interfaces that are up, in the order of the system's list. Leaves out
/// IPv6 addresses that can't be used (tentative, or duplicates of another host's) or should not be used any
/// more (deprecated).
///
/// # Errors
///
/// If the system doesn't list the addresses.
pub fn local_addresses() -> io::Result<Vec<LocalAddress>> {
    // The file describes the network namespace of the thread, which may differ from the process's.
    let flags = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
    let unusable = unusable_v6(&flags);
    let usable = |address: IpAddr| match address {
        IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_unspecified() && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_unspecified() && !unusable.contains(&v6),
    };
    let mut found: Vec<LocalAddress> = Vec::new();
    for entry in interfaces::addresses()?.into_iter().filter(|entry| usable(entry.address)) {
        let local = LocalAddress {
            address: entry.address,
            scope: Scope::of(entry.address),
            interface: entry.interface,
            interface_index: entry.index,
        };
        // The same address on several interfaces counts as one, except for link-local addresses.
        let known = found.iter().any(|other| {
            other.address == local.address
                && (local.scope != Scope::LinkLocal || other.interface_index == local.interface_index)
        });
        if !known {
            found.push(local);
        }
    }
    Ok(found)
}

/// Returns those of the host's addresses that can be offered to a peer, given one of its addresses. The peer
/// could not reach addresses of narrower scope than its own. Link-local IPv6 addresses are offered only on
/// the peer's link.
#[must_use]
pub fn addresses_towards(peer: SocketAddr, local: &[LocalAddress]) -> Vec<IpAddr> {
    let peer_scope = Scope::of(peer.ip());
    let link = match peer {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let reachable = |local: &&LocalAddress| {
        let on_link = local.scope != Scope::LinkLocal
            || peer_scope == Scope::Loopback
            || local.address.is_ipv4()
            || local.interface_index == link;
        local.scope >= peer_scope && on_link
    };
    let mut addresses: Vec<IpAddr> = Vec::new();
    for local in local.iter().filter(reachable) {
        if !addresses.contains(&local.address) {
            addresses.push(local.address);
        }
    }
    addresses
}

/// Returns the IPv6 addresses whose flags (the fifth column, from linux/if_addr.h) mark them as unusable or
/// deprecated.
fn unusable_v6(table: &str) -> Vec<Ipv6Addr> {
    const DAD_FAILED: u32 = 0x08;
    const DEPRECATED: u32 = 0x20;
    const TENTATIVE: u32 = 0x40;
    let parse = |line: &str| {
        let mut columns = line.split_whitespace();
        let address = u128::from_str_radix(columns.next()?, 16).ok()?;
        let flags = u32::from_str_radix(columns.nth(3)?, 16).ok()?;
        (flags & (DAD_FAILED | DEPRECATED | TENTATIVE) != 0).then_some(Ipv6Addr::from(address))
    };
    table.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests;
