//! Limits, memory, and ICMP.

use super::*;
use crate::config::AssociationConfig;
use crate::congestion::Algorithm;
use crate::error::ConnectError;
use crate::event::{IcmpError, IcmpKind};

#[test]
fn an_idle_association_takes_at_most_1_kb() {
    const ASSOCIATIONS: u16 = 1000;
    let mut pair = Pair::new();
    let mut last = None;
    for number in 0..ASSOCIATIONS {
        let remotes = vec![address(SERVER, 0)];
        let request = Connect {
            local_port: 10_000 + number,
            peer_port: PORT,
            remotes,
            local: Vec::new(),
            config: None,
        };
        last = Some(pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap());
    }
    pair.run();
    let client = last.unwrap();
    let server = pair.accepted();
    // Used, and idle again: the memory for data is released.
    pair.send(CLIENT, client, 0, &vec![0; 50_000]);
    pair.pass(Duration::from_secs(10));
    for (host, id, name) in [(CLIENT, client, "client"), (SERVER, server, "server")] {
        while pair.recv(host, id).is_some() {}
        pair.pass(Duration::from_secs(10));
        let report = pair.hosts[host].endpoint.memory(id).unwrap();
        println!("one idle association of {ASSOCIATIONS}, {name}:");
        for (item, bytes) in &report.items {
            println!("  {bytes:5}  {item}");
        }
        println!("  {:5}  in all", report.total());
        assert!(report.total() <= 1024, "{} bytes", report.total());
    }
}

/// Memory of controllers is counted, and what only serves data in flight is released.
#[test]
fn idle_controllers_are_counted_and_small() {
    for (congestion, most) in [
        (Algorithm::Cubic, 1024),
        (Algorithm::Rfc9260, 1024),
        (Algorithm::Swift, 1024),
        (Algorithm::Dctcp, 1024),
        (Algorithm::Bbr, 1536),
    ] {
        let mut pair = Pair::new();
        let config = Arc::new(AssociationConfig { congestion, ..AssociationConfig::default() });
        let remotes = vec![address(SERVER, 0)];
        let request =
            Connect { local_port: 5000, peer_port: PORT, remotes, local: Vec::new(), config: Some(config) };
        let client = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
        pair.run();
        pair.send(CLIENT, client, 0, &vec![0; 200_000]);
        let controllers = |pair: &Pair| {
            let report = pair.hosts[CLIENT].endpoint.memory(client).unwrap();
            let item = report.items.iter().find(|(item, _)| item.contains("controllers")).unwrap();
            (item.1, report.total())
        };
        let mut busiest = 0;
        for _ in 0..100 {
            pair.pass(Duration::from_millis(10));
            busiest = busiest.max(controllers(&pair).0);
        }
        pair.pass(Duration::from_secs(10));
        let (idle, total) = controllers(&pair);
        assert!(total <= most, "{congestion:?}: {total} bytes");
        let on_heap = matches!(congestion, Algorithm::Bbr);
        assert_eq!(busiest > idle, on_heap || busiest > 0, "{congestion:?}: {busiest}, then {idle}");
    }
}

/// Of many associations that take turns only few hold buffers: the more there are, the sooner each releases them.
#[test]
fn of_many_associations_each_gives_buffers_back_soon() {
    for (associations, kept) in [(10, true), (8_200, false)] {
        let mut pair = Pair::new();
        let mut last = None;
        for number in 0..associations {
            let remotes = vec![address(SERVER, 0)];
            let request = Connect {
                local_port: 10_000 + number,
                peer_port: PORT,
                remotes,
                local: Vec::new(),
                config: None,
            };
            last = Some(pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap());
        }
        pair.run();
        let client = last.unwrap();
        let before = pair.hosts[CLIENT].endpoint.memory(client).unwrap().total();
        pair.send(CLIENT, client, 0, &[0; 1000]);
        // The acknowledgement is delayed by 0.2 s; the usual 2 s are halved.
        pair.pass(Duration::from_millis(1500));
        let after = pair.hosts[CLIENT].endpoint.memory(client).unwrap().total();
        assert_eq!(after > before, kept, "{associations}: {before}, then {after}");
    }
}

#[test]
fn associations_are_limited_on_both_sides() {
    let few = |host| EndpointConfig { associations_max: 2, ..config(1, host) };
    let mut pair = Pair::with(config(1, CLIENT), few(SERVER));
    for port in 1..=3 {
        let remotes = vec![address(SERVER, 0)];
        let request = Connect { local_port: port, peer_port: PORT, remotes, local: Vec::new(), config: None };
        pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    }
    pair.run();
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 2);
    assert_eq!(pair.hosts[SERVER].endpoint.stats().refused, 1);
    let refused = |event: &Event| matches!(event, Event::Closed(CloseReason::PeerAborted { code: 4, .. }));
    assert!(pair.hosts[CLIENT].events.iter().any(|(_, event)| refused(event)));

    let mut pair = Pair::with(few(CLIENT), config(1, SERVER));
    for port in 1..=3 {
        let remotes = vec![address(SERVER, 0)];
        let request = Connect { local_port: port, peer_port: PORT, remotes, local: Vec::new(), config: None };
        let result = pair.hosts[CLIENT].endpoint.connect(pair.now, request);
        assert_eq!(result.is_err(), port == 3);
    }
}

#[test]
fn connect_refuses_what_makes_no_sense() {
    let mut endpoint = Endpoint::new(config(1, CLIENT), [1; 32], Time::ZERO).unwrap();
    let there = address(SERVER, 0);
    let mut connect = |request: Connect| endpoint.connect(Time::ZERO, request).map(|_| ());
    assert_eq!(connect(Connect::to(there, 0)), Err(ConnectError::InvalidPort));
    assert_eq!(connect(Connect { remotes: vec![], ..Connect::to(there, 7) }), Err(ConnectError::NoAddress));
    assert_eq!(connect(Connect::to("224.0.0.1:9899".parse().unwrap(), 7)), Err(ConnectError::NotUnicast));
    assert_eq!(connect(Connect { local_port: 5, ..Connect::to(there, 7) }), Ok(()));
    let again = connect(Connect { local_port: 5, ..Connect::to(there, 7) });
    assert_eq!(again, Err(ConnectError::AlreadyExists));
}

#[test]
fn stale_identifiers_are_refused() {
    let (mut pair, client, _) = Pair::established();
    pair.hosts[CLIENT].endpoint.abort(pair.now, client, "".into()).unwrap();
    pair.hosts[CLIENT].endpoint.release(client);
    let again = pair.connect();
    assert_eq!(again.slot, client.slot);
    assert_ne!(again.generation, client.generation);
    assert!(pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).is_err());
    assert!(pair.hosts[CLIENT].endpoint.status(client).is_none());
}

#[test]
fn icmp_counts_only_with_the_right_tag() {
    let mut pair = Pair::new();
    let client = pair.connect();
    pair.collect();
    let init = pair.wire.pop_front().unwrap();
    let unreachable =
        |quoted| IcmpError { destination: address(SERVER, 0), kind: IcmpKind::ProtocolUnreachable, quoted };
    let mut forged = init.bytes.clone();
    forged[16] ^= 1;
    pair.hosts[CLIENT].endpoint.handle_icmp(pair.now, unreachable(&forged));
    pair.hosts[CLIENT].endpoint.handle_icmp(pair.now, unreachable(&init.bytes[..8]));
    pair.hosts[CLIENT].endpoint.handle_icmp(pair.now, unreachable(&[]));
    pair.collect();
    assert_eq!(pair.state(CLIENT, client), "COOKIE-WAIT");
    pair.hosts[CLIENT].endpoint.handle_icmp(pair.now, unreachable(&init.bytes[..20]));
    pair.collect();
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Unreachable));
}

#[test]
fn packet_too_big_lowers_the_path_mtu() {
    let (mut pair, client, server) = Pair::established();
    pair.send(CLIENT, client, 0, &vec![0; 100_000]);
    pair.pass(Duration::from_secs(5));
    assert_eq!(pair.hosts[CLIENT].endpoint.paths(client).unwrap()[0].mtu, 1500);
    let data = pair.log.iter().rfind(|sent| has(kind::DATA)(sent)).unwrap().clone();
    let error = IcmpError {
        destination: address(SERVER, 0),
        kind: IcmpKind::PacketTooBig { mtu: 1300 },
        quoted: &data.bytes[..8],
    };
    pair.hosts[CLIENT].endpoint.handle_icmp(pair.now, error);
    // RFC 8899 section 4.6.2: the PMTU falls to a size that is known to work, and the reported size is probed next.
    assert_eq!(pair.hosts[CLIENT].endpoint.paths(client).unwrap()[0].mtu, 1200);
    while pair.recv(SERVER, server).is_some() {}
    pair.log.clear();
    pair.send(CLIENT, client, 0, &vec![1; 10_000]);
    pair.pass(Duration::from_secs(1));
    assert!(pair.log.iter().filter(|sent| has(kind::DATA)(sent)).all(|sent| sent.bytes.len() <= 1272));
    assert_eq!(pair.recv(SERVER, server).unwrap().data.len(), 10_000);
}

#[test]
fn a_million_associations_are_found_by_key() {
    // 20,000 here. The work for each packet must not grow; the time of this test would.
    let mut pair = Pair::configured(|config| config.heartbeat_interval = None);
    for port in 0..20_000u16 {
        let remotes = vec![address(SERVER, 0)];
        let request =
            Connect { local_port: 10_000 + port, peer_port: PORT, remotes, local: Vec::new(), config: None };
        pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    }
    pair.run();
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 20_000);
    assert_eq!(pair.hosts[SERVER].endpoint.stats().established, 20_000);
}

#[test]
fn shared_carrier_uses_only_its_own_ports() {
    let mut pair = Pair::new();
    let endpoint = &mut pair.hosts[CLIENT].endpoint;
    for _ in 0..50 {
        let request = Connect::to(address(SERVER, 0), PORT);
        let id = endpoint.connect_from(pair.now, request, |port| port % 7 == 3).unwrap();
        let port = endpoint.status(id).unwrap().local_port;
        assert!(port % 7 == 3 && endpoint.uses_port(port));
    }
    let request = Connect::to(address(SERVER, 0), PORT);
    assert_eq!(endpoint.connect_from(pair.now, request, |_| false), Err(ConnectError::NoPort));
}

#[test]
fn multihomed_peers_are_counted_while_known() {
    let (mut pair, client, _) = Pair::with(config(1, CLIENT), config(2, SERVER)).establish();
    let count = |pair: &Pair| [0, 1].map(|host| pair.hosts[host].endpoint.multihomed_count());
    assert_eq!(count(&pair), [1, 0], "the server told its second address");
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.run();
    assert_eq!(count(&pair), [0, 0]);
}
