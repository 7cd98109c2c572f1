//! Whom to talk to.

use std::net::{IpAddr, SocketAddr};

/// A peer: its SCTP port, its IP addresses (more than one if it is multi-homed, the preferred one first), and the UDP
/// port that its packets are carried to.
///
/// Functions that take `impl Into<Peer>` also take a [`SocketAddr`] of IP address and *SCTP* port, the pair
/// `(IpAddr, u16)`, or several socket addresses of one port.
///
/// ```
/// use strandline::Peer;
/// let simple: Peer = "192.0.2.7:5060".parse::<std::net::SocketAddr>()?.into();
/// assert_eq!(simple.port(), 5060);
/// let multihomed = Peer::new("192.0.2.7".parse()?, 5060).also_at("198.51.100.7".parse()?).encapsulation_port(9900);
/// assert_eq!(multihomed.addresses().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Peer {
    addresses: Vec<IpAddr>,
    port: u16,
    encapsulation_port: Option<u16>,
}

impl Peer {
    /// A peer with one address, at an SCTP port.
    #[must_use]
    pub fn new(address: IpAddr, port: u16) -> Self {
        Self { addresses: vec![address], port, encapsulation_port: None }
    }

    /// Another address of the same peer.
    #[must_use]
    pub fn also_at(mut self, address: IpAddr) -> Self {
        self.addresses.push(address);
        self
    }

    /// The UDP port of the peer's encapsulation, if it is not the stack's default (9899). Has no meaning on a stack on
    /// raw IP.
    #[must_use]
    pub fn encapsulation_port(mut self, port: u16) -> Self {
        self.encapsulation_port = Some(port);
        self
    }

    /// The SCTP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The IP addresses.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Where packets are carried to, given the stack's default port.
    pub(crate) fn remotes(&self, default_port: u16) -> Vec<SocketAddr> {
        // On raw IP the default is 0 and nothing else makes sense.
        let port = if default_port == 0 { 0 } else { self.encapsulation_port.unwrap_or(default_port) };
        self.addresses.iter().map(|address| SocketAddr::new(*address, port)).collect()
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip(), address.port())
    }
}

impl From<(IpAddr, u16)> for Peer {
    fn from((address, port): (IpAddr, u16)) -> Self {
        Self::new(address, port)
    }
}

impl From<&Peer> for Peer {
    fn from(peer: &Peer) -> Self {
        peer.clone()
    }
}

#[cfg(test)]
mod tests;
