//! Addresses that change while an association is established: the peer's and its own.

use strandline_wire::Chunk;
use strandline_wire::parameter::Parameter;

use super::*;
use crate::error::PathError;
use crate::event::PathChange;
use crate::reliability::Reliability;
use crate::stats::Reachability;

fn two_paths() -> (Pair, AssociationId, AssociationId) {
    let mut association = AssociationConfig {
        rto_initial: Duration::from_millis(100),
        rto_min: Duration::from_millis(100),
        ..AssociationConfig::default()
    };
    association.extensions.partial_reliability = true;
    let association = Arc::new(association);
    let with = |host| EndpointConfig { association: Arc::clone(&association), ..config(2, host) };
    let (mut pair, client, server) = Pair::with(with(CLIENT), with(SERVER)).establish();
    pair.pass(Duration::from_secs(2));
    (pair, client, server)
}

fn goes_to(path: u8) -> impl Fn(&Sent) -> bool {
    move |sent| sent.destination == address(SERVER, path)
}

fn remove(pair: &mut Pair, id: AssociationId, path: u8) -> Result<(), PathError> {
    let now = pair.now;
    pair.hosts[CLIENT].endpoint.addresses(id).remove_peer(now, address(SERVER, path).ip())
}

fn add(pair: &mut Pair, id: AssociationId, path: u8) -> Result<(), PathError> {
    let now = pair.now;
    pair.hosts[CLIENT].endpoint.addresses(id).add_peer(now, address(SERVER, path).ip())
}

#[test]
fn data_moves_off_a_removed_primary_path() {
    let (mut pair, client, server) = two_paths();
    pair.hosts[CLIENT].events.clear();
    pair.send(CLIENT, client, 0, &[7; 3000]);
    pair.run_dropping(goes_to(0));
    pair.log.clear();
    remove(&mut pair, client, 0).unwrap();
    pair.run();
    assert!(pair.log.iter().filter(|sent| has(kind::DATA)(sent)).all(goes_to(1)));
    assert_eq!(pair.recv(SERVER, server).unwrap().data, vec![7; 3000]);
    let events = &pair.hosts[CLIENT].events;
    let changed = |path, change| (client, Event::PathChanged { address: address(SERVER, path), change });
    assert!(events.contains(&changed(0, PathChange::Removed)), "{events:?}");
    assert!(events.contains(&changed(1, PathChange::Primary)), "{events:?}");
    let paths = pair.hosts[CLIENT].endpoint.paths(client).unwrap();
    assert_eq!(paths.len(), 1);
    assert!(paths[0].primary && paths[0].address == address(SERVER, 1), "{paths:?}");
    pair.log.clear();
    pair.pass(Duration::from_secs(120));
    assert!(!pair.log.iter().any(goes_to(0)), "its timers have stopped");
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
}

/// RFC 3758 section 3.5 rule C5: a FORWARD TSN is sent until it is acknowledged, also if its path is removed.
#[test]
fn forward_tsn_moves_off_a_removed_path() {
    let (mut pair, client, _) = two_paths();
    let now = pair.now;
    let info = SendInfo::on(StreamId(0)).reliability(Reliability::retransmissions(0));
    pair.hosts[CLIENT].endpoint.send_slice(now, client, info, &[7; 100]).unwrap();
    let lost = |sent: &Sent| has(kind::DATA)(sent) || has(kind::FORWARD_TSN)(sent);
    pair.pass_dropping(Duration::from_millis(150), lost);
    assert!(pair.log.iter().any(has(kind::FORWARD_TSN)));
    let primary = u8::from(!pair.hosts[CLIENT].endpoint.paths(client).unwrap()[0].primary);
    pair.log.clear();
    remove(&mut pair, client, primary).unwrap();
    pair.run();
    let forward: Vec<_> = pair.log.iter().filter(|sent| has(kind::FORWARD_TSN)(sent)).collect();
    assert!(forward.len() == 1 && goes_to(1 - primary)(forward[0]), "{forward:?}");
    pair.log.clear();
    pair.pass(Duration::from_secs(10));
    assert!(!pair.log.iter().any(has(kind::FORWARD_TSN)), "it is acknowledged");
}

#[test]
fn last_path_cannot_be_removed() {
    let (mut pair, client, _) = two_paths();
    remove(&mut pair, client, 1).unwrap();
    assert_eq!(remove(&mut pair, client, 1), Err(PathError::UnknownAddress));
    assert_eq!(remove(&mut pair, client, 0), Err(PathError::LastAddress));
    // The peer may set up again at an address that another engine is responsible for.
    assert_eq!(pair.hosts[CLIENT].endpoint.multihomed_count(), 1);
    pair.hosts[CLIENT].endpoint.abort(pair.now, client, "".into()).unwrap();
    assert_eq!(pair.hosts[CLIENT].endpoint.multihomed_count(), 0);
    pair.run();
}

#[test]
fn removed_address_can_be_added_again() {
    let (mut pair, client, server) = two_paths();
    for path in [0, 1, 0] {
        remove(&mut pair, client, path).unwrap();
        add(&mut pair, client, path).unwrap();
        add(&mut pair, client, path).unwrap();
        pair.pass(Duration::from_secs(40));
        let paths = pair.hosts[CLIENT].endpoint.paths(client).unwrap();
        assert!(paths.len() == 2 && paths.iter().all(|path| path.state == Reachability::Active), "{paths:?}");
        assert_eq!(pair.hosts[CLIENT].endpoint.multihomed_count(), 1);
        pair.send(CLIENT, client, 0, &[path; 5000]);
        pair.pass(Duration::from_secs(1));
        assert_eq!(pair.recv(SERVER, server).unwrap().data, vec![path; 5000]);
    }
}

#[test]
fn packets_from_a_removed_address_are_dropped() {
    let (mut pair, client, server) = two_paths();
    remove(&mut pair, client, 1).unwrap();
    let now = pair.now;
    pair.hosts[SERVER].endpoint.set_primary(now, server, address(CLIENT, 1).ip()).unwrap();
    let before = pair.hosts[CLIENT].endpoint.stats().unknown_address;
    pair.send(SERVER, server, 0, b"from an address that is gone");
    pair.collect();
    while let Some(mut sent) = pair.wire.pop_front() {
        sent.source = address(SERVER, 1);
        pair.deliver(&sent);
    }
    assert_eq!(pair.hosts[CLIENT].endpoint.stats().unknown_address, before + 1);
    assert_eq!(pair.recv(CLIENT, client), None);
}

#[test]
fn changes_are_refused_with_a_reason() {
    let mut pair = Pair::with(config(2, CLIENT), config(2, SERVER));
    let client = pair.connect();
    assert_eq!(remove(&mut pair, client, 0), Err(PathError::NotEstablished));
    assert_eq!(add(&mut pair, client, 3), Err(PathError::NotEstablished));
    let (mut pair, client, _) = two_paths();
    let now = pair.now;
    let everybody = "224.0.0.1".parse().unwrap();
    let mut addresses = pair.hosts[CLIENT].endpoint.addresses(client);
    let refused = Err(PathError::NotUnicast { address: everybody });
    assert_eq!(addresses.add_peer(now, everybody), refused);
    assert_eq!(addresses.set_local(now, &[everybody]), refused);
    let many: Vec<IpAddr> = (1..=9).map(|host| IpAddr::from([192, 0, 2, host])).collect();
    assert_eq!(addresses.set_local(now, &many), Err(PathError::TooMany));
    for path in 2..8 {
        add(&mut pair, client, path).unwrap();
    }
    assert_eq!(add(&mut pair, client, 8), Err(PathError::TooMany));
    pair.hosts[CLIENT].endpoint.abort(now, client, bytes::Bytes::new()).unwrap();
    assert_eq!(remove(&mut pair, client, 0), Err(PathError::UnknownAssociation));
    assert_eq!(add(&mut pair, client, 0), Err(PathError::UnknownAssociation));
}

#[test]
fn packets_to_a_foreign_address_are_dropped() {
    let (mut pair, client, server) = two_paths();
    let (now, own) = (pair.now, address(SERVER, 1).ip());
    let mut addresses = pair.hosts[SERVER].endpoint.addresses(server);
    assert_eq!(addresses.local().map(<[IpAddr]>::len), Some(2), "those of the endpoint");
    addresses.set_local(now, &[own]).unwrap();
    assert_eq!(addresses.local(), Some(&[own][..]));
    let dropped = |pair: &Pair| pair.hosts[SERVER].endpoint.stats().unknown_address;
    let before = dropped(&pair);
    pair.send(CLIENT, client, 0, b"to the other address");
    pair.run();
    assert_eq!((pair.recv(SERVER, server), dropped(&pair)), (None, before + 1));
    pair.pass(Duration::from_secs(1));
    assert!(pair.recv(SERVER, server).is_some(), "it comes over the other path");
    let now = pair.now;
    pair.hosts[SERVER].endpoint.addresses(server).set_local(now, &[]).unwrap();
    let before = dropped(&pair);
    pair.send(CLIENT, client, 0, b"to any");
    pair.pass(Duration::from_secs(1));
    assert_eq!((pair.recv(SERVER, server).is_some(), dropped(&pair)), (true, before));
}

/// In the answer to an INIT of a peer that has restarted.
#[test]
fn init_ack_lists_the_own_addresses() {
    let listed = |sent: &Sent| -> Vec<IpAddr> {
        let packet = Packet::parse(&sent.bytes).unwrap();
        let chunk = packet.chunks().next().unwrap().unwrap().parse().unwrap();
        let Chunk::InitAck(init) = chunk else { panic!("{chunk:?}") };
        let addresses = init.parameters.iter().flatten().filter_map(|raw| match raw.parse() {
            Ok(Parameter::Ipv4Address(v4)) => Some(IpAddr::V4(v4)),
            _ => None,
        });
        addresses.collect()
    };
    let own = [address(SERVER, 0).ip(), "192.0.2.77".parse().unwrap()];
    let (mut pair, _, server) = two_paths();
    let now = pair.now;
    pair.hosts[SERVER].endpoint.addresses(server).set_local(now, &own).unwrap();
    pair.log.clear();
    pair.hosts[CLIENT].endpoint = Endpoint::new(config(2, CLIENT), [99; 32], now).unwrap();
    pair.connect();
    pair.run_to(kind::INIT_ACK);
    let answer = pair.log.iter().find(|sent| has(kind::INIT_ACK)(sent)).unwrap();
    assert_eq!(listed(answer), own);
}

/// A peer that lists fewer addresses than before may set up again at an address that another engine is responsible for.
#[test]
fn peers_that_lose_addresses_are_counted() {
    // In a restart.
    let (mut pair, _, _) = two_paths();
    let restarted = Endpoint::new(config(1, CLIENT), [99; 32], pair.now).unwrap();
    pair.hosts[CLIENT].endpoint = restarted;
    pair.connect();
    pair.run();
    assert_eq!(pair.hosts[SERVER].endpoint.stats().restarts, 1);
    assert_eq!(pair.hosts[SERVER].endpoint.multihomed_count(), 1);
    // In its INIT ACK.
    let mut pair = Pair::new();
    let remotes = vec![address(SERVER, 0), address(SERVER, 1)];
    let request = Connect { local_port: 5000, peer_port: PORT, remotes, local: Vec::new(), config: None };
    let client = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    pair.run();
    assert_eq!(pair.hosts[CLIENT].endpoint.paths(client).unwrap().len(), 1);
    assert_eq!(pair.hosts[CLIENT].endpoint.multihomed_count(), 1);
}

/// A late copy of the INIT that set the association up lists an address that the application has removed. An ABORT,
/// which has the tag of the association, would end it.
#[test]
fn late_init_with_a_removed_address_is_ignored() {
    let (mut pair, client, server) = two_paths();
    let now = pair.now;
    pair.hosts[SERVER].endpoint.addresses(server).remove_peer(now, address(CLIENT, 0).ip()).unwrap();
    let mut init = pair.log.iter().find(|sent| has(kind::INIT)(sent)).unwrap().clone();
    for path in [0, 1] {
        init.source = address(CLIENT, path);
        pair.deliver(&init);
        assert!(!pair.wire.iter().any(has(kind::ABORT)), "{path}");
        pair.run();
    }
    assert_eq!((pair.state(CLIENT, client), pair.state(SERVER, server)), ("ESTABLISHED", "ESTABLISHED"));
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1);
}
