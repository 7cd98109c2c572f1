//! What a stack has to know of its host: the addresses and the MTUs of the interfaces.

use std::io;
use std::net::{IpAddr, SocketAddr};

use strandline_io::{AddressChanges, LocalAddress};
use strandline_proto::config::LinkMtu;
use strandline_proto::zone;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::carrier::Carrier;

/// The addresses of this host. Nothing is sent to an address of a peer that is also this host's. The engine detects
/// those that are missing here by its own packets coming back.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// Those at which packets for the stack arrive.
    pub(crate) own: Vec<IpAddr>,
    /// All others, if the stack's socket has only one of them.
    pub(crate) others: Vec<IpAddr>,
}

impl Addresses {
    /// Lists the addresses that the host has now; none for a network in memory, or if the system doesn't list them.
    pub(crate) fn now(carrier: Option<&Carrier>) -> Self {
        let Some(carrier) = carrier.filter(|carrier| carrier.is_of_the_kernel()) else {
            return Self::default();
        };
        let all = strandline_io::local_addresses().unwrap_or_else(|error| {
            tracing::debug!(%error, "listing this host's addresses failed");
            Vec::new()
        });
        Self::of(&all, carrier.local_address())
    }

    /// Divides a list of all addresses of the host, given the address that the stack's socket is bound to.
    pub(crate) fn of(all: &[LocalAddress], bound: Option<SocketAddr>) -> Self {
        let all = all.iter().map(|local| zone::key_of(local.address, local.interface_index));
        match bound.map(zone::key) {
            Some(any) if any.is_unspecified() => Self { own: all.collect(), others: Vec::new() },
            bound => Self { own: bound.into_iter().collect(), others: all.collect() },
        }
    }
}

/// Begins to listen for changes of the list of addresses, for each of the carriers that are the kernel's.
pub(crate) fn changes(carriers: &[Carrier]) -> io::Result<Vec<AddressChanges>> {
    let carriers = carriers.iter().filter(|carrier| carrier.is_of_the_kernel());
    carriers.map(|_| AddressChanges::open()).collect()
}

/// Registers a socket of [`changes`] with the runtime.
#[allow(
    deprecated,
    reason = "the successor is unsafe, for types whose descriptor changes; this one owns one socket for its life"
)]
pub(crate) fn registered(changes: AddressChanges) -> io::Result<AsyncFd<AddressChanges>> {
    AsyncFd::with_interest(changes, Interest::READABLE)
}

/// Returns the MTUs of this host's interfaces as they are now. The engine learns of a smaller one from the kernel,
/// which refuses to send longer packets.
pub(crate) fn link_mtu() -> LinkMtu {
    let all = strandline_io::mtus().unwrap_or_else(|error| {
        tracing::debug!(%error, "listing the interfaces' MTUs failed");
        Vec::new()
    });
    let largest = |loopback: bool| {
        let mtus = all.iter().filter(|each| each.is_loopback == loopback).map(|each| each.mtu);
        mtus.max().map(|mtu| u16::try_from(mtu).unwrap_or(u16::MAX))
    };
    let default = LinkMtu::default();
    LinkMtu {
        within_host: largest(true).unwrap_or(default.within_host),
        to_others: largest(false).unwrap_or(default.to_others),
    }
}
