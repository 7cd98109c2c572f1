//! Handshakes: identities, loss, limits.

use super::*;
use crate::connection::PeerSide;

#[test]
fn packets_travel_encrypted_both_ways() {
    let mut world = World::trusting();
    world.associate();
    world.up(b"from the client.");
    world.down(b"from the server.");
    world.secs(1);
    assert_eq!(world.texts(1), [b"from the client."]);
    assert_eq!(world.texts(0), [b"from the server."]);
    assert!(world.log.iter().all(|(_, _, bytes)| !bytes.windows(8).any(|part| part == b"from the")));
}

#[test]
fn the_overhead_is_as_stated() {
    let mut world = World::trusting();
    world.associate();
    world.log.clear();
    let packet = data(PORTS, 0x51, &[7; 1000]);
    world.send(0, "192.0.2.2:9899", &packet);
    assert_eq!(world.log[0].2.len(), packet.len() + usize::from(Layer::overhead()));
}

#[test]
fn both_sides_know_each_other() {
    let (client, server) = (identity(), identity());
    let mut world = World::new(config(&client, &[&server]), config(&server, &[&client]));
    world.associate();
    let of = |host: usize, tag| world.hosts[host].layer.peer_identity(tag).map(|peer| peer.fingerprint);
    assert_eq!(of(0, 0xc1), Some(server.fingerprint()));
    assert_eq!(of(1, 0x51), Some(client.fingerprint()));
    let sides = [0, 1].map(|host: usize| {
        let mut events = world.hosts[host].events.iter();
        events.find_map(|event| if let Event::Established(_, side, _) = event { Some(*side) } else { None })
    });
    assert_eq!(sides, [Some(PeerSide::Server), Some(PeerSide::Client)]);
}

#[test]
fn a_handshake_survives_loss_and_reordering() {
    for seed in 0..20 {
        let mut world = World::trusting();
        world.rng = ChaCha20Rng::from_seed([seed; 32]);
        (world.loss, world.duplication, world.reordering) = (20, 20, 30);
        world.send(0, "192.0.2.2:9899", &init(PORTS, 0xc1));
        world.secs(15);
        let established = |event: &Event| matches!(event, Event::Established(..));
        assert!(world.hosts[0].events.iter().any(established), "seed {seed}: {:?}", world.hosts[0].events);
    }
}

#[test]
fn a_wrong_pin_ends_the_attempt() {
    let (client, server, other) = (identity(), identity(), identity());
    let mut world = World::new(config(&client, &[&other]), config(&server, &[&client]));
    world.send(0, "192.0.2.2:9899", &init(PORTS, 0xc1));
    world.secs(2);
    let name = "192.0.2.2".to_owned();
    let unknown = Failure::Trust(TrustError::UnknownServer { name, presented: server.fingerprint() });
    assert_eq!(world.hosts[0].failure(), Some(&unknown));
    let is_of_server = |event: &Event| matches!(event, Event::Failed(_, PeerSide::Server, _));
    assert!(world.hosts[0].events.iter().any(is_of_server));
    let (_, abort) = &world.hosts[0].received[0];
    assert_eq!(abort[12], kind::ABORT);
    assert!(abort.windows(7).any(|part| part == b"unknown"), "the ABORT has the reason");
    assert!(world.hosts[1].received.is_empty());
}

#[test]
fn a_server_tells_a_client_that_it_refuses() {
    let (client, server) = (identity(), identity());
    let mut world = World::new(config(&client, &[&server]), config(&server, &[]));
    world.send(0, "192.0.2.2:9899", &init(PORTS, 0xc1));
    world.secs(2);
    assert_eq!(world.hosts[0].failure(), Some(&Failure::Refused(client.fingerprint())));
    assert!(matches!(world.hosts[1].failure(), Some(Failure::Trust(_))));
    assert!(world.hosts[1].received.is_empty(), "nothing of a refused client passes");
}

#[test]
fn anonymous_clients_pass_only_if_allowed() {
    let (client, server) = (identity(), identity());
    let mut open = config(&server, &[]);
    open.anonymous_clients = true;
    let mut world = World::new(config(&client, &[&server]), open);
    world.associate();
    assert_eq!(world.hosts[1].layer.peer_identity(0x51), None);
}

#[test]
fn without_a_valid_token_nothing_is_kept() {
    let mut world = World::trusting();
    world.send(0, "192.0.2.2:9899", &init(PORTS, 0xc1));
    let (_, _, first) = world.log[0].clone();
    for port in 1..1000 {
        let spoofed = SocketAddr::new([203, 0, 113, 7].into(), port);
        world.deliver(1, spoofed, &first);
    }
    assert_eq!(world.hosts[1].layer.stats().connections, 0);
    let answer = world.log.iter().rfind(|(from, ..)| *from == world.hosts[1].address).unwrap();
    assert!(answer.2.len() < first.len(), "an answer is no longer than the question");
}

#[test]
fn a_replayed_initial_begins_no_handshake() {
    let mut world = World::trusting();
    world.associate();
    let initials: Vec<_> = world.log.iter().filter(|(.., bytes)| bytes[0] == 8).cloned().collect();
    for (from, _, bytes) in initials {
        world.deliver(1, from, &bytes);
    }
    assert_eq!(world.hosts[1].layer.stats().connections, 1);
}

#[test]
fn half_open_handshakes_are_limited() {
    let (client, server) = (identity(), identity());
    for (half_open_max, handshakes_per_sec) in [(3, 1000), (1000, 3)] {
        let mut limited = config(&server, &[&client]);
        limited.limits.half_open_max = half_open_max;
        limited.limits.handshakes_per_sec = handshakes_per_sec;
        let mut world = World::new(config(&client, &[&server]), limited);
        for host in 0..10 {
            let address = format!("198.51.100.{host}:1001");
            world.hosts[0] = Host::new(config(&client, &[&server]), &address, 10 + host, world.now);
            world.send(0, "192.0.2.2:9899", &init(PORTS, 0xc1));
            for to in [1, 0, 1] {
                let (from, _, bytes) = world.log.last().unwrap().clone();
                world.deliver(to, from, &bytes);
            }
        }
        assert_eq!(world.hosts[1].layer.stats().half_open, 3);
        world.hosts.remove(0);
        world.flying.clear();
        world.secs(60);
        assert_eq!(world.hosts[0].layer.stats().connections, 0, "all have timed out");
        assert_eq!(world.hosts[0].layer.stats().half_open, 0);
    }
}

#[test]
fn refused_clients_are_not_in_progress() {
    let (client, server) = (identity(), identity());
    let mut limited = config(&server, &[&client]);
    limited.limits.half_open_max = 3;
    let mut world = World::new(config(&client, &[&server]), limited);
    for host in 0..4 {
        let stranger = config(&identity(), &[&server]);
        world.hosts[0] = Host::new(stranger, "192.0.2.1:1001", 10 + host, world.now);
        world.send(0, "192.0.2.2:9899", &init(PORTS, 0xc1));
        world.secs(2);
        assert!(matches!(world.hosts[0].failure(), Some(Failure::Refused(_))));
    }
    assert_eq!(world.hosts[1].layer.stats().half_open, 0);
    world.hosts[0] = Host::new(config(&client, &[&server]), "192.0.2.1:1001", 20, world.now);
    world.associate();
}

#[test]
fn a_connection_without_associations_is_closed() {
    let mut world = World::trusting();
    world.associate();
    world.secs(3600);
    assert_eq!(world.hosts[0].layer.stats().connections, 1);
    world.all_used = false;
    world.secs(300);
    assert_eq!(world.hosts[0].layer.stats().connections, 0);
    assert_eq!(world.hosts[1].layer.stats().connections, 0);
}

#[test]
fn peers_without_our_header_are_served() {
    let (client, server) = (identity(), identity());
    let mut plain = config(&client, &[&server]);
    plain.sends_plain = true;
    let mut world = World::new(plain.clone(), config(&server, &[&client]));
    world.associate();
    world.up(b"no header...");
    world.secs(1);
    assert_eq!(world.texts(1), [b"no header..."]);
    assert!(world.log.iter().all(|(.., bytes)| (20..64).contains(&bytes[0])));

    let mut strict = config(&server, &[&client]);
    strict.accepts_plain = false;
    let mut world = World::new(plain, strict);
    world.send(0, "192.0.2.2:9899", &init(PORTS, 0xc1));
    world.secs(2);
    assert_eq!(world.hosts[1].layer.stats().connections, 0);
}

#[test]
fn a_port_without_a_listener_ends_the_attempt() {
    let mut world = World::trusting();
    world.send(0, "192.0.2.9:9899", &init(PORTS, 0xc1));
    let (_, to, quoted) = world.log[0].clone();
    let mut forged = quoted.clone();
    forged[4] ^= 1;
    for quoted in [&forged, &quoted[..9]] {
        assert_eq!(world.hosts[0].layer.handle_icmp(to, quoted, IcmpReport::Refused), None);
        assert_eq!(world.hosts[0].layer.poll_refusal(), None, "a guess, or too short");
    }
    world.hosts[0].layer.handle_icmp(to, &quoted, IcmpReport::Refused);
    world.refuse(0);
    world.secs(1);
    assert_eq!(world.hosts[0].failure(), Some(&Failure::Unreachable));
    assert_eq!(world.hosts[0].received[0].1[12], kind::ABORT);
}

#[test]
fn attempts_without_a_route_are_the_engine_s() {
    for sends_plain in [false, true] {
        let mut own = config(&identity(), &[]);
        own.sends_plain = sends_plain;
        let mut world = World::new(own, config(&identity(), &[]));
        world.send(0, "192.0.2.9:9899", &init(PORTS, 0xc1));
        let (_, to, quoted) = world.log[0].clone();
        for (report, goes_on) in
            [(IcmpReport::HostUnreachable, false), (IcmpReport::NoRoute, true), (IcmpReport::NoRoute, false)]
        {
            let found = world.hosts[0].layer.handle_icmp(to, &quoted, report);
            let by_system = report == IcmpReport::NoRoute;
            assert_eq!(found.is_some(), by_system || !sends_plain, "one could be forged");
            let Some(found) = found else { continue };
            assert_eq!((found.destination, found.packets.len()), (to, 1));
            let (start, sent) = (found.packets[0].to_bytes(), init(PORTS, 0xc1));
            for range in [0..8, 12..13, 16..20] {
                assert_eq!(start[range.clone()], sent[range]);
            }
            world.hosts[0].layer.report(world.now, &found, |_, _| goes_on);
            let is_over = by_system && !goes_on;
            assert_eq!(world.hosts[0].layer.stats().connections, usize::from(!is_over));
        }
        world.collect(0);
        assert_eq!(world.hosts[0].failure(), Some(&Failure::NoRoute));
        assert!(world.hosts[0].received.is_empty(), "the engine has ended the association itself");
    }
}

/// Two associations of a connection: one of them has no other address.
#[test]
fn a_refused_attempt_goes_on_for_some() {
    let mut world = World::trusting();
    let others = (PORTS.0 + 1, PORTS.1);
    for (ports, tag) in [(PORTS, 0xc1), (others, 0xc2)] {
        world.send(0, "192.0.2.9:9899", &init(ports, tag));
    }
    let (_, to, quoted) = world.log[0].clone();
    world.hosts[0].layer.handle_icmp(to, &quoted, IcmpReport::Refused);
    let refusal = world.hosts[0].layer.poll_refusal().unwrap();
    world.hosts[0].layer.report(world.now, &refusal, |_, start| start.tag == 0xc2);
    world.send(0, "192.0.2.2:9899", &init(others, 0xc2));
    world.secs(2);
    let first = &world.hosts[0].received[0].1;
    assert_eq!((first[7], first[12]), (0xc1, kind::ABORT));
    assert_eq!(world.hosts[0].failure(), None);
    assert!(
        world.hosts[1].received.iter().any(|(_, packet)| packet[19] == 0xc2),
        "the other address answers"
    );
}

#[test]
fn messages_about_datagrams_name_their_associations() {
    let mut world = World::trusting();
    world.associate();
    world.log.clear();
    world.up(b"too long");
    let (_, to, quoted) = world.log[0].clone();
    let about = |world: &mut World, quoted: &[u8], report| {
        let found = world.hosts[0].layer.handle_icmp(to, quoted, report)?;
        Some((found.destination, found.packets.iter().map(PacketStart::to_bytes).collect::<Vec<_>>()))
    };
    let mut start = [0; 20];
    start[..8].copy_from_slice(&[0x9c, 0x40, 0x13, 0x88, 0, 0, 0, 0x51]);
    assert_eq!(about(&mut world, &quoted, IcmpReport::TooBig), Some((to, vec![start])));
    assert_eq!(about(&mut world, &quoted, IcmpReport::Refused), None, "the peer may have moved");
    let mut forged = quoted.clone();
    forged[4] ^= 1;
    assert_eq!(about(&mut world, &forged, IcmpReport::TooBig), None);
    // An INIT over the connection.
    let others = (PORTS.0 + 1, PORTS.1);
    world.send(0, "192.0.2.2:9899", &init(others, 0xc2));
    let (_, found) = about(&mut world, &quoted, IcmpReport::NoRoute).unwrap();
    assert_eq!((found.len(), &found[0][..8]), (2, &init(others, 0xc2)[..8]));
}

#[test]
fn an_init_without_encryption_is_refused_aloud() {
    let mut world = World::trusting();
    let packet = init(PORTS, 0xc1);
    for _ in 0..3 {
        world.deliver(1, at("192.0.2.9:9899"), &packet);
    }
    let reported = |event: &&Event| matches!(event, Event::NotEncrypted(_));
    assert_eq!(world.hosts[1].events.iter().filter(reported).count(), 1, "not for each packet");
    assert_eq!(world.log.len(), 3);
    for (_, to, answer) in &world.log {
        assert_eq!(
            (*to, answer[12], &answer[4..8]),
            (at("192.0.2.9:9899"), kind::ABORT, &[0, 0, 0, 0xc1][..])
        );
        assert!(Packet::parse(answer).unwrap().verify_checksum() && answer.len() <= packet.len());
    }
    let len = world.log.len();
    world.deliver(1, at("192.0.2.9:9899"), &data(PORTS, 0x51, b"text"));
    assert_eq!(world.log.len(), len, "only an INIT has an answer");
}

#[test]
fn a_server_without_encryption_is_recognised() {
    let mut world = World::trusting();
    world.send(0, "192.0.2.2:9899", &init(PORTS, 0xc1));
    let hello = world.log[0].2.clone();
    let answer = answer_to_hello(&hello).unwrap();
    assert!(answer.len() < hello.len());
    assert_eq!(answer_to_hello(&init(PORTS, 0xc1)), None);
    world.deliver(0, at("192.0.2.2:9899"), &answer);
    world.run(Duration::ZERO);
    assert_eq!(world.hosts[0].failure(), Some(&Failure::NotEncrypted));
    assert_eq!(world.hosts[0].received[0].1[12], kind::ABORT, "the engine learns of it at once");
}
