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
pub(crate) struct HostAddresses {
    /// Packets to these come back to the endpoint.
    endpoint: AddressSet,
    /// Packets to these come back to the host, which may answer them, as may another process.
    host: AddressSet,
    /// Those of both that [`set`](Self::set) replaces.
    set: Vec<IpAddr>,
}

impl HostAddresses {
    pub(crate) fn of(config: &EndpointConfig) -> Self {
        let endpoint = config.own_addresses.iter().chain(&config.local_addresses);
        let endpoint: AddressSet = endpoint.map(IpAddr::to_canonical).collect();
        let host =
            config.host_addresses.iter().map(IpAddr::to_canonical).chain(endpoint.iter().copied()).collect();
        Self { endpoint, host, set: Vec::new() }
    }

    /// Replaces the addresses that the last call has set: `own` are those at which packets for the endpoint arrive,
    /// `host` others of this host. Addresses of the configuration and inserted ones stay.
    pub(crate) fn set(&mut self, config: &EndpointConfig, own: &[IpAddr], host: &[IpAddr]) {
        for address in self.set.drain(..) {
            self.endpoint.remove(&address);
            self.host.remove(&address);
        }
        self.endpoint.extend(config.own_addresses.iter().chain(own).map(IpAddr::to_canonical));
        self.set.extend(own.iter().chain(host).map(IpAddr::to_canonical));
        let configured = config.own_addresses.iter().chain(&config.host_addresses);
        self.host.extend(configured.map(IpAddr::to_canonical).chain(self.set.iter().copied()));
    }

    /// Adds an address at which packets for the endpoint arrive.
    pub(crate) fn insert(&mut self, address: IpAddr) {
        // Without any the endpoint's addresses are unknown, and stay so.
        if !self.endpoint.is_empty() {
            self.endpoint.insert(address.to_canonical());
        }
        self.host.insert(address.to_canonical());
    }

    /// False if packets to the address do not arrive at the endpoint. True if its addresses are unknown.
    pub(crate) fn may_be_bound(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        // All of 127.0.0.0/8 arrives at the host, although interfaces have one of these addresses.
        let has_loopback = || self.endpoint.iter().any(|own| own.is_ipv4() && own.is_loopback());
        let is_own = self.endpoint.contains(&address)
            || (address.is_ipv4() && address.is_loopback() && has_loopback());
        self.endpoint.is_empty() || is_own
    }

    /// True if packets to the address do not leave this host.
    pub(crate) fn is_within_host(&self, address: IpAddr) -> bool {
        address.to_canonical().is_loopback() || self.contains(address)
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
