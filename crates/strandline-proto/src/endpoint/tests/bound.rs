//! Listeners and associations at some of the endpoint's local addresses.

use super::*;
use crate::endpoint::Listen;
use crate::error::{ConnectError, ListenError};

const BOUND: u16 = 8;

/// The server has two addresses and listens at the second one.
fn bound() -> Pair {
    let mut pair = Pair::with(config(2, CLIENT), config(2, SERVER));
    let listen = Listen { port: BOUND, addresses: vec![address(SERVER, 1).ip()] };
    assert_eq!(pair.hosts[SERVER].endpoint.listen(listen), Ok(BOUND));
    pair
}

fn connect(pair: &mut Pair, path: u8) -> AssociationId {
    let request = Connect { local_port: 5000, ..Connect::to(address(SERVER, path), BOUND) };
    let id = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    pair.run();
    id
}

#[test]
fn other_addresses_refuse() {
    let mut pair = bound();
    let id = connect(&mut pair, 0);
    assert_eq!(pair.state(CLIENT, id), "CLOSED");
    assert!(matches!(pair.closed(CLIENT), Some(CloseReason::PeerAborted { .. })), "{:?}", pair.kinds());
    let id = connect(&mut pair, 1);
    assert_eq!(pair.state(CLIENT, id), "ESTABLISHED");
}

#[test]
fn only_bound_addresses_are_listed() {
    let mut pair = bound();
    let id = connect(&mut pair, 1);
    let paths = pair.hosts[CLIENT].endpoint.paths(id).unwrap();
    assert_eq!(paths.iter().map(|path| path.address).collect::<Vec<_>>(), [address(SERVER, 1)]);
    // The client is not bound: the server knows both of its addresses.
    let server = pair.accepted();
    assert_eq!(pair.hosts[SERVER].endpoint.paths(server).unwrap().len(), 2);
    let local = pair.hosts[SERVER].endpoint.addresses(server).local().map(<[IpAddr]>::to_vec);
    assert_eq!(local, Some(vec![address(SERVER, 1).ip()]));
}

#[test]
fn packets_to_other_addresses_are_dropped() {
    let mut pair = bound();
    let id = connect(&mut pair, 1);
    pair.send(CLIENT, id, 0, b"hello");
    pair.collect();
    let mut data = pair.wire.pop_front().unwrap();
    assert_eq!((data.destination, data.kinds()), (address(SERVER, 1), vec![kind::DATA]));
    data.destination = address(SERVER, 0);
    let server = pair.accepted();
    pair.deliver(&data);
    assert_eq!(pair.recv(SERVER, server), None);
    assert_eq!(pair.hosts[SERVER].endpoint.stats().unknown_address, 1);
    data.destination = address(SERVER, 1);
    pair.deliver(&data);
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "hello");
}

#[test]
fn a_cookie_is_no_way_to_other_addresses() {
    let mut pair = bound();
    let request = Connect { local_port: 5000, ..Connect::to(address(SERVER, 1), BOUND) };
    pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    pair.run_to(kind::COOKIE_ECHO);
    let mut echo = pair.wire.pop_front().unwrap();
    echo.destination = address(SERVER, 0);
    pair.deliver(&echo);
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 0);
}

/// A listener and an association of another socket have the same peer and the same ports. The association has not
/// deleted the listener's address, although it might have (RFC 5061).
#[test]
fn association_at_another_address_is_no_obstacle() {
    for (listener, dynamic_addresses) in [(BOUND, false), (BOUND, true), (PORT, true)] {
        let with = |host| {
            let mut config = config(2, host);
            Arc::make_mut(&mut config.association).extensions.dynamic_addresses = dynamic_addresses;
            config
        };
        let mut pair = Pair::with(with(CLIENT), with(SERVER));
        let listen = Listen { port: BOUND, addresses: vec![address(SERVER, 1).ip()] };
        pair.hosts[SERVER].endpoint.listen(listen).unwrap();
        let own = vec![address(SERVER, 0).ip()];
        let request =
            Connect { local_port: listener, local: own.clone(), ..Connect::to(address(CLIENT, 0), PORT) };
        let from = pair.hosts[SERVER].endpoint.connect(pair.now, request).unwrap();
        pair.run();
        assert_eq!(pair.state(SERVER, from), "ESTABLISHED");
        let request = Connect { local_port: PORT, ..Connect::to(address(SERVER, 1), listener) };
        let to = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
        pair.run();
        assert_eq!((pair.state(CLIENT, to), pair.state(SERVER, from)), ("ESTABLISHED", "ESTABLISHED"));
        assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 2);
        assert_eq!(pair.hosts[SERVER].endpoint.addresses(from).local(), Some(&own[..]));
        assert!(!pair.hosts[SERVER].events.iter().any(|(_, event)| matches!(event, Event::Restarted { .. })));
    }
}

#[test]
fn associations_are_set_up_from_bound_addresses() {
    let mut pair = bound();
    let local = vec![address(CLIENT, 0).ip()];
    let request = Connect { local_port: 5000, local: local.clone(), ..Connect::to(address(SERVER, 0), PORT) };
    let id = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    let mut buffer = vec![0; 2048];
    let init = pair.hosts[CLIENT].endpoint.poll_transmit(pair.now, &mut buffer, 1).unwrap();
    assert_eq!(init.source, Some(local[0]), "packets come from it");
    pair.pass(Duration::from_secs(2));
    assert_eq!(pair.state(CLIENT, id), "ESTABLISHED");
    let server = pair.accepted();
    let paths = pair.hosts[SERVER].endpoint.paths(server).unwrap();
    assert_eq!(paths.iter().map(|path| path.address).collect::<Vec<_>>(), [address(CLIENT, 0)]);
}

#[test]
fn foreign_addresses_are_refused() {
    let mut pair = bound();
    let mut listen = |addresses: &[IpAddr]| {
        pair.hosts[SERVER].endpoint.listen(Listen { port: 9, addresses: addresses.to_vec() })
    };
    let foreign = address(CLIENT, 0).ip();
    assert_eq!(listen(&[address(SERVER, 0).ip(), foreign]), Err(ListenError::NotLocal(foreign)));
    let any = IpAddr::from([0, 0, 0, 0]);
    assert_eq!(listen(&[any]), Err(ListenError::NotLocal(any)));
    assert_eq!(listen(&[address(SERVER, 0).ip(); 9]), Err(ListenError::TooManyAddresses(9)));
    assert_eq!(listen(&[]), Ok(9));
    assert_eq!(listen(&[address(SERVER, 0).ip()]), Err(ListenError::PortInUse(9)));
    let mut connect = |local: &[IpAddr]| {
        let request = Connect { local: local.to_vec(), ..Connect::to(address(SERVER, 0), PORT) };
        pair.hosts[CLIENT].endpoint.connect(pair.now, request).map(drop)
    };
    let foreign = address(SERVER, 1).ip();
    assert_eq!(connect(&[address(CLIENT, 0).ip(), foreign]), Err(ConnectError::NotLocal(foreign)));
    assert_eq!(connect(&[any]), Err(ConnectError::NotLocal(any)));
    assert_eq!(connect(&[address(CLIENT, 0).ip(); 9]), Err(ConnectError::TooManyAddresses(9)));
    assert_eq!(pair.hosts[CLIENT].endpoint.association_count(), 0);
}
