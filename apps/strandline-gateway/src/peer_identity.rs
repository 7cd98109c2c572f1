//! The identities of peers and clients, which rules and limits refer to.

use std::net::IpAddr;

use strandline::encryption::Fingerprint;

/// The address from which a peer's association comes, and the key that the peer has proved to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerIdentity {
    pub(crate) address: IpAddr,
    /// `None` if the association is not encrypted, or the peer is anonymous.
    pub(crate) key: Option<Fingerprint>,
}

/// The part of an address that one customer has: an IPv4 address, or an IPv6 /64 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Network {
    is_ipv4: bool,
    number: u64,
}

impl Network {
    pub(crate) fn of(address: IpAddr) -> Self {
        Self { is_ipv4: address.to_canonical().is_ipv4(), number: strandline_ops::network(address) }
    }
}

/// The unit of limits: the key if there is one, and otherwise the address or IPv6 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum LimitKey {
    Key(Fingerprint),
    Network(Network),
}

impl PeerIdentity {
    pub(crate) fn unit(self) -> LimitKey {
        self.key.map_or_else(|| LimitKey::Network(Network::of(self.address)), LimitKey::Key)
    }
}
