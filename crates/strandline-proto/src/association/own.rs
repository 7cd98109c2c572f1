//! The addresses of this host. A peer on another host may list one of them, because many hosts have the same private
//! address; packets to it would come back.

use core::net::IpAddr;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::config::EndpointConfig;

/// A set of our own addresses, which need no keyed hash.
type AddressSet = HashSet<IpAddr, BuildHasherDefault<DefaultHasher>>;

/// The known addresses of this host.
#[derive(Debug)]
pub(crate) struct OwnAddresses {
    /// Packets to these come back to the endpoint.
    endpoint: AddressSet,
    /// Packets to these come back to the host, which may answer them, as may another process.
    host: AddressSet,
}

impl OwnAddresses {
    pub(crate) fn of(config: &EndpointConfig) -> Self {
        let endpoint = config.own_addresses.iter().chain(&config.local_addresses);
        let endpoint: AddressSet = endpoint.map(IpAddr::to_canonical).collect();
        let host =
            config.host_addresses.iter().map(IpAddr::to_canonical).chain(endpoint.iter().copied()).collect();
        Self { endpoint, host }
    }

    /// True if packets to the address come back to this host.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.host.contains(&address.to_canonical())
    }

    /// True if a peer whose packet came from `source` can have `address`: one of this host's own only if the peer is
    /// on this host as well.
    pub(crate) fn may_be_the_peers(&self, address: IpAddr, source: IpAddr) -> bool {
        let (address, source) = (address.to_canonical(), source.to_canonical());
        let fits = |own: &AddressSet| !own.contains(&address) || own.contains(&source);
        fits(&self.endpoint) && fits(&self.host)
    }
}
