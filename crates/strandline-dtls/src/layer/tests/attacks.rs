//! What others try: outsiders on the way, and peers that are authenticated as somebody else.

use super::*;
use crate::known_hosts::KnownHosts;

/// A world with a second client, host 2, that the server trusts as well. Both have an association.
fn with_rival() -> World {
    let (client, server, rival) = (identity(), identity(), identity());
    let mut world = World::new(config(&client, &[&server]), config(&server, &[&client, &rival]));
    world.associate();
    world.hosts.push(Host::new(config(&rival, &[&server]), "192.0.2.3:1003", 5, world.now));
    world.send(2, "192.0.2.2:9899", &init(PORTS, 0xa1));
    world.secs(2);
    world.answer(0xa1, 0x52);
    world.secs(1);
    world.hosts.iter_mut().for_each(|host| host.received.clear());
    world
}

#[test]
fn replayed_datagrams_are_dropped() {
    let mut world = World::trusting();
    world.associate();
    world.up(b"only once...");
    world.secs(1);
    for (from, to, bytes) in world.log.clone() {
        if let Some(host) = world.host_at(to) {
            world.deliver(host, from, &bytes);
        }
    }
    world.secs(1);
    assert_eq!(world.texts(1), [b"only once..."]);
}

#[test]
fn changed_datagrams_are_dropped() {
    let mut world = World::trusting();
    world.associate();
    world.up(b"unchanged...");
    let Reverse(flying) = world.flying.pop().unwrap();
    for index in 0..flying.bytes.len() {
        let mut changed = flying.bytes.clone();
        changed[index] ^= 1;
        world.deliver(1, flying.from, &changed);
    }
    assert!(world.hosts[1].received.is_empty());
    world.deliver(1, flying.from, &flying.bytes);
    assert_eq!(world.texts(1), [b"unchanged..."], "and harm nothing");
}

#[test]
fn plain_packets_are_dropped() {
    let mut world = World::trusting();
    world.associate();
    let from = world.hosts[0].address;
    world.deliver(1, from, &data(PORTS, 0x51, b"in the clear"));
    assert!(world.hosts[1].received.is_empty());
}

#[test]
fn exchanged_connection_ids_are_noticed() {
    let mut world = World::trusting();
    world.send(0, "192.0.2.2:9899", &init(PORTS, 0xc1));
    // Somebody on the way gives the server another connection ID for the client, and undoes it on the way back.
    for _ in 0..200 {
        let Some(Reverse(mut flying)) = world.flying.pop() else { break };
        world.now = world.now.max(flying.due);
        let to_server = flying.to == world.hosts[1].address;
        match (flying.bytes[0], to_server) {
            (8, true) => flying.bytes[1] ^= 0x80,
            (10, true) => flying.bytes[9] ^= 0x80,
            (9..=11, false) => flying.bytes[1] ^= 0x80,
            _ => {}
        }
        world.deliver(usize::from(to_server), flying.from, &flying.bytes);
    }
    assert!(world.hosts.iter().any(|host| host.failure() == Some(&Failure::Confirmation)));
    assert!(world.hosts[1].received.is_empty(), "nothing passes");
}

#[test]
fn a_peer_reaches_only_its_own_associations() {
    let mut world = with_rival();
    world.send(2, "192.0.2.2:9899", &data(PORTS, 0x52, b"my own.."));
    world.secs(1);
    assert_eq!(world.texts(1), [b"my own.."]);
    world.hosts[1].received.clear();
    // An honest host would not send what follows: the rival's layer is told that the tag is its own.
    let own = *world.hosts[2].layer.connections.keys().next().unwrap();
    world.hosts[2].layer.tags.on_inbound(own, &init_ack((PORTS.1, PORTS.0), 0xa1, 0x51));
    let before = world.hosts[1].layer.stats().refused;
    for kind in [kind::DATA, kind::ABORT, kind::SHUTDOWN, kind::COOKIE_ECHO, kind::HEARTBEAT] {
        world.send(2, "192.0.2.2:9899", &packet(PORTS, 0x51, kind, b"not mine"));
    }
    world.secs(1);
    assert!(world.hosts[1].received.is_empty());
    assert_eq!(world.hosts[1].layer.stats().refused - before, 5);
}

#[test]
fn a_peer_cannot_claim_the_tag_of_another() {
    let mut world = with_rival();
    // 0xc1 is the first client's tag, with the same ports: packets to it must not be sent to the rival.
    world.send(2, "192.0.2.2:9899", &init(PORTS, 0xc1));
    world.secs(1);
    assert!(world.hosts[1].received.is_empty());
    world.down(b"for one.");
    world.secs(1);
    assert_eq!(world.texts(0), [b"for one."]);
    assert!(world.hosts[2].received.is_empty());
}

#[test]
fn only_its_peer_may_restart_an_association() {
    let mut world = with_rival();
    world.send(2, "192.0.2.2:9899", &init(PORTS, 0xa2));
    world.secs(1);
    world.send(0, "192.0.2.2:9899", &init(PORTS, 0xc2));
    world.secs(1);
    let server = &world.hosts[1];
    let [.., of_rival, of_client] = server.inits.as_slice() else { panic!("two INITs") };
    assert!(server.layer.may_set_up(of_client, 0x51));
    assert!(server.layer.may_set_up(of_rival, 0x52));
    assert!(!server.layer.may_set_up(of_rival, 0x51));
    assert!(!server.layer.may_set_up(of_client, 0x52));
}

#[test]
fn reflected_tags_of_others_do_not_pass() {
    let mut world = with_rival();
    let connection = world.hosts[1].layer.by_address[&at("192.0.2.3:1003")];
    let abort = packet(PORTS, 0xc1, kind::ABORT, &[]);
    assert_eq!(world.hosts[1].layer.tags.on_inbound(connection, &abort), Inbound::Drop);
}

#[test]
fn a_client_is_no_server_by_its_address() {
    for is_pinned in [false, true] {
        let (client, server) = (identity(), identity());
        let pinned = [&client];
        let mut own = config(&server, if is_pinned { &pinned } else { &[] });
        // It may connect, being listed; but not under this address.
        let listed = KnownHost {
            name: "other.example".to_owned(),
            fingerprint: client.fingerprint(),
            comment: String::new(),
        };
        let mut hosts = KnownHosts::default();
        hosts.add(listed);
        own.trust = own.trust.hosts(hosts, false);
        let mut world = World::new(config(&client, &[&server]), own);
        world.associate();
        world.send(1, "192.0.2.1:1001", &init((7, 8), 0x77));
        world.secs(2);
        assert_eq!(world.hosts[0].received.len(), usize::from(is_pinned));
        let refused = matches!(world.hosts[1].failure(), Some(Failure::Trust(_)));
        assert_eq!(refused, !is_pinned);
        world.up(b"still here..");
        world.secs(1);
        assert_eq!(world.texts(1).last(), Some(&&b"still here.."[..]));
    }
}

/// A client that repeats its ClientHello under ever new connection IDs, with the token for each.
fn flood(world: &mut World, from: SocketAddr, hello: &[u8], ids: core::ops::Range<u64>) {
    for id in ids {
        let mut hello = hello.to_vec();
        hello[1..9].copy_from_slice(&(id << 8).to_be_bytes());
        world.deliver(1, from, &hello);
        let (_, _, retry) = world.log.last().unwrap().clone();
        assert_eq!(retry[0], 9, "a Retry");
        let with_token = [&hello[..9], &[24], &retry[9..], &hello[10..]].concat();
        world.deliver(1, from, &with_token);
        world.flying.retain(|Reverse(flying)| flying.to != from);
    }
}

#[test]
fn one_source_keeps_nobody_out() {
    for (half_open_max, handshakes_per_sec) in [(8, 1000), (1000, 16)] {
        for (attacker, victim) in
            [("192.0.2.66:1", "192.0.2.1:1001"), ("[2001:db8:0:1::66]:1", "[2001:db8:0:2::1]:1001")]
        {
            let (client, server) = (identity(), identity());
            let mut limited = config(&server, &[&client]);
            limited.limits.half_open_max = half_open_max;
            limited.limits.handshakes_per_sec = handshakes_per_sec;
            let mut world = World::new(config(&client, &[&server]), limited);
            world.hosts[0] = Host::new(config(&client, &[&server]), victim, 7, world.now);
            world.send(0, "192.0.2.2:9899", &init(PORTS, 0xc1));
            let (_, _, hello) = world.log[0].clone();
            let hello_of_victim = world.flying.pop().unwrap();
            let mut sender = at(attacker);
            for round in 0..200_u16 {
                if round == 100 {
                    world.flying.push(Reverse(Flying { due: world.now, ..hello_of_victim.0.clone() }));
                }
                sender.set_port(1 + round);
                let first = 2 * u64::from(round) + 1;
                flood(&mut world, sender, &hello, first..first + 2);
                world.run(Duration::from_millis(10));
            }
            let open = world.hosts[1].layer.stats().half_open;
            assert!(open <= half_open_max && open > 4, "{open}");
            assert_eq!(world.hosts[1].received.len(), 1, "the victim's INIT arrived");
        }
    }
}

#[test]
fn failures_of_strangers_are_reported_now_and_then() {
    let (client, server) = (identity(), identity());
    let mut world = World::new(config(&client, &[&server]), config(&server, &[]));
    let mut reports = Vec::new();
    for host in 0..60 {
        world.hosts[0] = Host::new(config(&client, &[&server]), "192.0.2.1:1001", 10 + host, world.now);
        world.send(0, "192.0.2.2:9899", &init(PORTS, 0xc1));
        world.secs(1);
        reports.extend(world.hosts[1].events.drain(..).filter_map(|event| match event {
            Event::ClientFailed(_, Failure::Trust(_), others) => Some(others),
            _ => None,
        }));
    }
    assert_eq!(world.hosts[1].layer.stats().failed, 60);
    assert!((9..=15).contains(&reports.len()), "{reports:?}");
    assert!(reports.iter().sum::<u64>() > 30, "the others are counted: {reports:?}");
}

#[test]
fn corrupted_datagrams_cause_no_panic() {
    let (mut established, mut received) = (0, 0);
    for seed in 0..300_u32 {
        let mut world = World::trusting();
        world.rng = ChaCha20Rng::seed_from_u64(seed.into());
        world.corruption = 10 + seed % 50;
        (world.duplication, world.reordering) = (10, 10);
        for _ in 0..3 {
            world.send(0, "192.0.2.2:9899", &init(PORTS, 0xc1));
            world.secs(3);
        }
        established += u32::from(world.hosts[0].layer.stats().established > 0);
        let packets = world.hosts[1].received.iter();
        received += packets.filter(|(_, packet)| packet != &init(PORTS, 0xc1)).count();
    }
    assert_eq!(received, 0, "what arrives is what was sent");
    assert!(established > 150, "{established}");
}
