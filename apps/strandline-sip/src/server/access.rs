//! Networks whose messages are taken, and those whose aren't.

use std::net::IpAddr;

use crate::service::contains;

/// Address and length of the prefix of each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// Only these, if there are any.
    pub(super) allow: Vec<(IpAddr, u8)>,
    /// None of these.
    pub(super) deny: Vec<(IpAddr, u8)>,
}

impl Access {
    /// May who is there send?
    pub(super) fn allows(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        let within = |networks: &[(IpAddr, u8)]| {
            networks.iter().any(|(network, prefix)| contains(*network, *prefix, peer))
        };
        !within(&self.deny) && (self.allow.is_empty() || within(&self.allow))
    }
}

#[cfg(test)]
mod tests;
