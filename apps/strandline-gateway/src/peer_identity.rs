//! The identities of peers and clients, which rules and limits refer to.

use std::net::IpAddr;

use strandline::encryption::Fingerprint;
use strandline_ops::Network;

/// The address from which a peer's association comes, and the key that the peer has proved to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerIdentity {
    pub(crate) address: IpAddr,
    /// `None` if the association is not encrypted, or the peer is anonymous.
    pub(crate) key: Option<Fingerprint>,
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
