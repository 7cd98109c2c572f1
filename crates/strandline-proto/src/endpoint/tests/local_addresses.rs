//! Changes of the addresses that associations to come list.

use strandline_wire::Chunk;
use strandline_wire::parameter::{Parameter, Parameters};

use super::*;
use crate::authentication::Authentication;
use crate::dynamic_addresses::AddressRequest;
use crate::endpoint::{Listen, LocalAddresses};
use crate::error::{AddressError, LocalAddressError};

const BOUND: u16 = 8;

/// An endpoint with two addresses and dynamic addresses.
fn dynamic(host: usize) -> EndpointConfig {
    let mut association = AssociationConfig::default();
    association.extensions.dynamic_addresses = true;
    association.extensions.authentication = Some(Authentication::default());
    EndpointConfig { association: Arc::new(association), ..config(2, host) }
}

fn pair() -> Pair {
    let mut pair = Pair::with(dynamic(CLIENT), dynamic(SERVER));
    for host in [CLIENT, SERVER] {
        pair.hosts[host].addresses.extend([address(host, 2), address(host, 3)]);
    }
    pair
}

fn ip(host: usize, path: u8) -> IpAddr {
    address(host, path).ip()
}

fn ips(host: usize, paths: &[u8]) -> Vec<IpAddr> {
    paths.iter().map(|path| ip(host, *path)).collect()
}

fn listed(parameters: Parameters<'_>) -> Vec<IpAddr> {
    let addresses = parameters.iter().flatten().filter_map(|raw| match raw.parse() {
        Ok(Parameter::Ipv4Address(v4)) => Some(IpAddr::V4(v4)),
        _ => None,
    });
    addresses.collect()
}

/// Returns the addresses in the latest INIT and in the latest INIT ACK.
fn latest(pair: &Pair) -> [Vec<IpAddr>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    for sent in &pair.log {
        let packet = Packet::parse(&sent.bytes).unwrap();
        match packet.chunks().next().unwrap().unwrap().parse().unwrap() {
            Chunk::Init(init) => found[0] = listed(init.parameters),
            Chunk::InitAck(ack) => found[1] = listed(ack.parameters),
            _ => {}
        }
    }
    found
}

/// Replaces the second address of a host by the third.
fn replace(pair: &mut Pair, host: usize) {
    let now = pair.now;
    let mut addresses = LocalAddresses::of(&mut pair.hosts[host].endpoint);
    addresses.add(now, ip(host, 2)).unwrap();
    addresses.remove(now, ip(host, 1)).unwrap();
    assert_eq!(addresses.list(), ips(host, &[0, 2]));
}

fn connect(pair: &mut Pair, from: u16, to: SocketAddr, port: u16) -> AssociationId {
    let request = Connect { local_port: from, ..Connect::to(to, port) };
    let id = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    pair.run();
    id
}

fn local(pair: &mut Pair, host: usize, id: AssociationId) -> Vec<IpAddr> {
    pair.hosts[host].endpoint.addresses(id).local().unwrap().to_vec()
}

#[test]
fn new_associations_list_the_addresses_of_now() {
    let mut pair = pair();
    connect(&mut pair, 5000, address(SERVER, 0), PORT);
    assert_eq!(latest(&pair), [ips(CLIENT, &[0, 1]), ips(SERVER, &[0, 1])]);
    replace(&mut pair, CLIENT);
    replace(&mut pair, SERVER);
    let second = connect(&mut pair, 5001, address(SERVER, 0), PORT);
    assert_eq!(latest(&pair), [ips(CLIENT, &[0, 2]), ips(SERVER, &[0, 2])]);
    let paths = pair.hosts[CLIENT].endpoint.paths(second).unwrap();
    let paths: Vec<_> = paths.iter().map(|path| path.address.ip()).collect();
    assert_eq!(paths, ips(SERVER, &[0, 2]));
}

/// An association has the addresses that its peer knows, so that it can ask for changes of these.
#[test]
fn existing_associations_keep_what_they_have_listed() {
    let mut pair = pair();
    let client = connect(&mut pair, 5000, address(SERVER, 0), PORT);
    let server = pair.accepted();
    replace(&mut pair, CLIENT);
    replace(&mut pair, SERVER);
    let now = pair.now;
    for (host, id) in [(CLIENT, client), (SERVER, server)] {
        assert_eq!(local(&mut pair, host, id), ips(host, &[0, 1]));
        let mut addresses = pair.hosts[host].endpoint.addresses(id);
        let unknown = [AddressRequest::Delete(ip(host, 2))];
        assert_eq!(addresses.request(now, &unknown), Err(AddressError::NotLocal { address: ip(host, 2) }));
        let changes = [AddressRequest::Add(ip(host, 2)), AddressRequest::Delete(ip(host, 1))];
        addresses.request(now, &changes).unwrap();
        pair.run();
        assert_eq!(local(&mut pair, host, id), ips(host, &[0, 2]));
    }
}

/// A set-up that is under way keeps the addresses of its INIT or INIT ACK, and the set-up after it has the new ones.
#[test]
fn set_ups_under_way_keep_their_addresses() {
    for (from, to) in [(5000, PORT), (5001, BOUND)] {
        let mut pair = pair();
        let listen = Listen { port: BOUND, addresses: ips(SERVER, &[0, 1]) };
        pair.hosts[SERVER].endpoint.listen(listen).unwrap();
        let request = Connect { local_port: from, ..Connect::to(address(SERVER, 0), to) };
        let client = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
        pair.run_to(kind::INIT_ACK);
        pair.now += Duration::from_millis(1);
        replace(&mut pair, CLIENT);
        replace(&mut pair, SERVER);
        let now = pair.now;
        let mut bound = LocalAddresses::of_listener(&mut pair.hosts[SERVER].endpoint, BOUND).unwrap();
        bound.set(now, ips(SERVER, &[0, 3])).unwrap();
        pair.pass(Duration::from_secs(1));
        let server = pair.accepted();
        assert_eq!(local(&mut pair, CLIENT, client), ips(CLIENT, &[0, 1]));
        assert_eq!(local(&mut pair, SERVER, server), ips(SERVER, &[0, 1]), "port {to}");
        pair.hosts[SERVER].events.clear();
        connect(&mut pair, 5002, address(SERVER, 0), to);
        let server = pair.accepted();
        let expected = if to == BOUND { [0, 3] } else { [0, 2] };
        assert_eq!(local(&mut pair, SERVER, server), ips(SERVER, &expected), "port {to}");
    }
}

#[test]
fn listeners_change_what_they_are_bound_to() {
    let mut pair = pair();
    let listen = Listen { port: BOUND, addresses: ips(SERVER, &[1, 2]) };
    let refused = pair.hosts[SERVER].endpoint.listen(listen);
    assert!(refused.is_err(), "the endpoint does not have the second one yet");
    let now = pair.now;
    LocalAddresses::of(&mut pair.hosts[SERVER].endpoint).add(now, ip(SERVER, 2)).unwrap();
    let listen = Listen { port: BOUND, addresses: ips(SERVER, &[1, 2]) };
    pair.hosts[SERVER].endpoint.listen(listen).unwrap();
    let mut bound = LocalAddresses::of_listener(&mut pair.hosts[SERVER].endpoint, BOUND).unwrap();
    bound.add(now, ip(SERVER, 3)).unwrap();
    bound.remove(now, ip(SERVER, 1)).unwrap();
    assert_eq!(bound.list(), ips(SERVER, &[2, 3]));
    let id = connect(&mut pair, 5000, address(SERVER, 1), BOUND);
    assert_eq!(pair.state(CLIENT, id), "CLOSED", "it no longer listens there");
    let id = connect(&mut pair, 5001, address(SERVER, 3), BOUND);
    assert_eq!(pair.state(CLIENT, id), "ESTABLISHED");
    assert_eq!(latest(&pair)[1], ips(SERVER, &[2, 3]));
    connect(&mut pair, 5002, address(SERVER, 0), PORT);
    assert_eq!(latest(&pair)[1], ips(SERVER, &[0, 1, 2]), "that of another port");
    assert!(LocalAddresses::of_listener(&mut pair.hosts[SERVER].endpoint, PORT).is_none());
}

#[test]
fn impossible_changes_are_refused() {
    let mut pair = pair();
    let now = pair.now;
    let endpoint = &mut pair.hosts[SERVER].endpoint;
    let listen = Listen { port: BOUND, addresses: ips(SERVER, &[1]) };
    endpoint.listen(listen).unwrap();
    let mut addresses = LocalAddresses::of(endpoint);
    let everybody = "224.0.0.1".parse().unwrap();
    assert_eq!(addresses.add(now, everybody), Err(LocalAddressError::NotUnicast { address: everybody }));
    let known = ip(SERVER, 1);
    assert_eq!(addresses.add(now, known), Err(LocalAddressError::AlreadyLocal { address: known }));
    let mapped = IpAddr::V6(match known {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    });
    assert_eq!(addresses.add(now, mapped), Err(LocalAddressError::AlreadyLocal { address: mapped }));
    let other = ip(CLIENT, 0);
    assert_eq!(addresses.remove(now, other), Err(LocalAddressError::NotLocal { address: other }));
    (2..8).for_each(|path| addresses.add(now, ip(SERVER, path)).unwrap());
    assert_eq!(addresses.add(now, ip(SERVER, 8)), Err(LocalAddressError::TooMany));
    assert_eq!(addresses.list().len(), 8);
    (0..8).for_each(|path| addresses.remove(now, ip(SERVER, path)).unwrap());
    assert!(addresses.list().is_empty());
    let mut bound = LocalAddresses::of_listener(endpoint, BOUND).unwrap();
    let last = Err(LocalAddressError::LastAddress { address: known });
    assert_eq!((bound.remove(now, known), bound.set(now, Vec::new())), (last, last));
}
