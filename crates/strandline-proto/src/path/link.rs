//! The link by which the packets of a path leave this host.

use crate::config::AssociationConfig;

/// What is known of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    /// Number of bytes between the IP header and the SCTP packet: 8 for UDP encapsulation.
    pub(crate) overhead: u16,
    /// Largest IP packet in bytes that the interface takes.
    pub(crate) mtu: u16,
}

impl Link {
    #[cfg(test)]
    pub(crate) const UDP: Self = Self { overhead: 8, mtu: crate::packet_sizes::ETHERNET_MTU };

    /// Returns the largest path MTU to search for, in bytes; the initial one if there is no search.
    pub(crate) fn mtu_max(self, config: &AssociationConfig) -> u16 {
        config.path_mtu_max.min(self.mtu.max(config.path_mtu_initial))
    }
}
