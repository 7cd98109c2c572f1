//! Access control by network.

use std::net::IpAddr;

use crate::service::contains;

/// The allowed and denied networks, as pairs of address and prefix length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// If not empty, only these networks have access.
    pub(super) allow: Vec<(IpAddr, u8)>,
    /// Networks without access.
    pub(super) deny: Vec<(IpAddr, u8)>,
}

impl Access {
    /// Returns true if the peer has access.
    pub(super) fn allows(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        let any_contains = |networks: &[(IpAddr, u8)]| {
            networks.iter().any(|(network, prefix)| contains(*network, *prefix, peer))
        };
        !any_contains(&self.deny) && (self.allow.is_empty() || any_contains(&self.allow))
    }
}

#[cfg(test)]
mod tests;
