//! The addresses of this host that a multi-homed peer is told.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use strandline::{Address, Bind};

/// Returns from where an association is set up with a peer at these addresses. If there are several, the peer
/// is told the address from which packets reach each of them, so that there is a path for each link;
/// otherwise packets come from wherever the routes lead.
pub(crate) fn bind_for(peer: &[SocketAddr]) -> Bind {
    let all = Bind::port(0);
    if peer.len() < 2 {
        return all;
    }
    let mut sources: Vec<IpAddr> = Vec::new();
    for source in peer.iter().filter_map(|address| source_for(*address)) {
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    sources.into_iter().map(Address::from).fold(all, Bind::at)
}

/// Returns the address from which the host's routes send packets there. Sends nothing.
pub(crate) fn source_for(address: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(address).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Returns whether this host has the address: packets to it come from it.
pub(crate) fn is_own(address: SocketAddr) -> bool {
    source_for(address).is_some_and(|source| source.to_canonical() == address.ip().to_canonical())
}

#[cfg(test)]
mod tests;
