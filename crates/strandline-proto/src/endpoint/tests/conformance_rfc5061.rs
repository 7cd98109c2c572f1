//! RFC 5061: dynamic address reconfiguration, with the attacks of RFC 5062.

mod sender;

use super::*;
use crate::config::ExtensionsConfig;
use crate::dynamic_addresses::{AddressOutcome, AddressRequest};
use crate::error::AddressError;
use crate::event::PathChange;
use crate::stats::Reachability;

fn with_dynamic_addresses(paths: u8, host: usize) -> EndpointConfig {
    let extensions = ExtensionsConfig { dynamic_addresses: true, ..ExtensionsConfig::default() };
    let association = Arc::new(AssociationConfig { extensions, ..AssociationConfig::default() });
    EndpointConfig { association, ..config(paths, host) }
}

/// Two endpoints with dynamic addresses and one address each, and an association between them.
fn established() -> (Pair, AssociationId, AssociationId) {
    Pair::with(with_dynamic_addresses(1, CLIENT), with_dynamic_addresses(1, SERVER)).establish()
}

/// An address of a host that is in no INIT: in the subnet of its first one.
fn new_address(host: usize, number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 50 + number + 100 * host as u8], 9899))
}

/// Gives a host an address.
fn gain(pair: &mut Pair, host: usize, address: SocketAddr) {
    pair.hosts[host].addresses.push(address);
}

/// Takes an address from a host.
fn lose(pair: &mut Pair, host: usize, address: SocketAddr) {
    pair.hosts[host].addresses.retain(|own| *own != address);
}

fn request(
    pair: &mut Pair,
    host: usize,
    id: AssociationId,
    requests: &[AddressRequest],
) -> Result<(), AddressError> {
    let now = pair.now;
    pair.hosts[host].endpoint.addresses(id).request(now, requests)
}

/// Returns what became of the requests of a host.
fn outcomes(pair: &Pair, host: usize) -> Vec<(AddressRequest, AddressOutcome)> {
    let events = pair.hosts[host].events.iter();
    let of = |(_, event): &(AssociationId, Event)| match event {
        Event::AddressRequest { request, outcome } => Some((*request, *outcome)),
        _ => None,
    };
    events.filter_map(of).collect()
}

/// Returns the changes of a host's paths.
fn changes(pair: &Pair, host: usize) -> Vec<(SocketAddr, PathChange)> {
    let of = |(_, event): &(AssociationId, Event)| match event {
        Event::PathChanged { address, change } => Some((*address, *change)),
        _ => None,
    };
    pair.hosts[host].events.iter().filter_map(of).collect()
}

/// Returns the addresses of the peer that a host knows, with their states.
fn paths(pair: &Pair, host: usize, id: AssociationId) -> Vec<(SocketAddr, Reachability)> {
    let paths = pair.hosts[host].endpoint.paths(id).unwrap();
    paths.iter().map(|path| (path.address, path.state)).collect()
}
