//! Addresses and ports of a peer.

use std::net::{IpAddr, SocketAddr};

use crate::address::Address;

/// A peer: its SCTP port and its addresses (several if it is multi-homed, the preferred one first), each with
/// the UDP port that packets to it are sent to.
///
/// A peer has two kinds of ports that are easily confused. `Peer` takes the SCTP port once, as a plain number.
/// A [`SocketAddr`] in this crate always holds an IP address and a *UDP* port, that of the encapsulation;
/// therefore a `SocketAddr` does not convert to a `Peer`.
///
/// Functions that take `impl Into<Peer>` also accept a pair of an IP address and an SCTP port.
///
/// ```
/// use strandline::Peer;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // SCTP port 5060. Packets go to the stack's default UDP port (9899), or on raw IP.
/// let simple = Peer::new([192, 0, 2, 7], 5060);
/// assert_eq!(simple.port(), 5060);
///
/// // Packets go to UDP port 9900 of that address.
/// let behind_a_socket = Peer::encapsulated("192.0.2.7:9900".parse()?, 5060);
///
/// // Two addresses, each with a UDP port of its own.
/// let multihomed = behind_a_socket.address_encapsulated([198, 51, 100, 7], 9901);
/// assert_eq!(multihomed.addresses().count(), 2);
///
/// // A link-local address on the link of interface 2.
/// let neighbour = Peer::new("fe80::7%2".parse::<strandline::Address>()?, 5060);
/// # assert_eq!(neighbour.addresses().next().map(|a| a.zone()), Some(2));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Peer {
    /// The addresses, each with its own encapsulation port if it has one.
    addresses: Vec<(Address, Option<u16>)>,
    port: u16,
    /// The encapsulation port of addresses without their own.
    encapsulation_port: Option<u16>,
    /// The name by which the user knows it.
    name: Option<String>,
}

impl Peer {
    /// Creates a peer with one address and an SCTP port. Packets go to the stack's default encapsulation port
    /// unless [`encapsulation_port`](Self::encapsulation_port) sets another.
    #[must_use]
    pub fn new(address: impl Into<Address>, sctp_port: u16) -> Self {
        Self {
            addresses: vec![(address.into(), None)],
            port: sctp_port,
            encapsulation_port: None,
            name: None,
        }
    }

    /// Creates a peer from the address of its UDP socket, such as the [`local_addr`](crate::Stack::local_addr)
    /// of its stack, and its SCTP port.
    #[must_use]
    pub fn encapsulated(udp: SocketAddr, sctp_port: u16) -> Self {
        let addresses = vec![(Address::of(udp), Some(udp.port()))];
        Self { addresses, port: sctp_port, encapsulation_port: None, name: None }
    }

    /// Adds another address of the peer, with the port from [`encapsulation_port`](Self::encapsulation_port) or
    /// the stack's default.
    #[must_use]
    pub fn address(mut self, address: impl Into<Address>) -> Self {
        self.addresses.push((address.into(), None));
        self
    }

    /// Adds another address of the peer with its own UDP port.
    #[must_use]
    pub fn address_encapsulated(mut self, address: impl Into<Address>, udp_port: u16) -> Self {
        self.addresses.push((address.into(), Some(udp_port)));
        self
    }

    /// Sets the UDP port of all addresses without their own, if it is not the stack's default (9899). It is
    /// ignored on a stack on raw IP.
    #[must_use]
    pub fn encapsulation_port(mut self, udp_port: u16) -> Self {
        self.encapsulation_port = Some(udp_port);
        self
    }

    /// Sets the host name by which the user knows the peer. With [encryption](crate::encryption), known hosts and
    /// certificates are looked up by it; otherwise it means nothing.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the SCTP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the addresses, the preferred one first.
    pub fn addresses(&self) -> impl Iterator<Item = Address> {
        self.addresses.iter().map(|(address, _)| *address)
    }

    /// Returns the addresses that packets are sent to, given the stack's default encapsulation port.
    pub(crate) fn remotes(&self, default_port: u16) -> Vec<SocketAddr> {
        let remote = |(address, own): &(Address, Option<u16>)| {
            // On raw IP the default is 0, and so is the port of every address.
            let port = if default_port == 0 { Some(0) } else { own.or(self.encapsulation_port) };
            address.with_port(port.unwrap_or(default_port))
        };
        self.addresses.iter().map(remote).collect()
    }
}

impl From<(IpAddr, u16)> for Peer {
    /// A peer with one IP address and an SCTP port.
    fn from((address, sctp_port): (IpAddr, u16)) -> Self {
        Self::new(address, sctp_port)
    }
}

impl From<(Address, u16)> for Peer {
    /// A peer with one address and an SCTP port.
    fn from((address, sctp_port): (Address, u16)) -> Self {
        Self::new(address, sctp_port)
    }
}

impl From<&Peer> for Peer {
    fn from(peer: &Peer) -> Self {
        peer.clone()
    }
}

#[cfg(test)]
mod tests;
