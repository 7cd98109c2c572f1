//! Addresses that change: NAT rebinding, several addresses.

use super::*;

#[test]
fn a_client_is_followed_to_its_new_address() {
    let mut world = World::trusting();
    world.associate();
    for port in 0..20 {
        let outside = SocketAddr::new([198, 51, 100, port as u8 % 3].into(), 2000 + port);
        world.nat.insert(world.hosts[0].address, outside);
        world.up(b"from new");
        world.secs(1);
        world.down(b"to new..");
        world.secs(1);
    }
    assert_eq!(world.texts(1).len(), 20);
    assert_eq!(world.texts(0).len(), 20);
    let mut sources = world.hosts[1].received.iter().map(|(source, _)| *source);
    assert!(sources.all(|source| source == at("192.0.2.1:1001")), "the engine sees no change");
}

#[test]
fn a_copy_from_elsewhere_does_not_redirect() {
    let mut world = World::trusting();
    world.associate();
    world.up(b"captured");
    let Reverse(captured) = world.flying.pop().unwrap();
    let thief = at("203.0.113.66:6666");
    world.deliver(1, thief, &captured.bytes);
    assert_eq!(world.texts(1), [b"captured"], "it is authentic");
    world.deliver(1, captured.from, &captured.bytes);
    world.secs(1);
    world.log.clear();
    world.down(b"secretly");
    world.secs(1);
    assert_eq!(world.texts(0), [b"secretly"]);
    assert!(world.log.iter().all(|(_, to, _)| *to != thief));
}

#[test]
fn challenges_are_limited_in_rate() {
    let mut world = World::trusting();
    world.associate();
    world.log.clear();
    for port in 1..100 {
        world.up(b"captured");
        let Reverse(captured) = world.flying.pop().unwrap();
        world.deliver(1, SocketAddr::new([203, 0, 113, 66].into(), port), &captured.bytes);
        // The challenge: what is captured next is the client's.
        world.flying.clear();
    }
    let to_thief = world.log.iter().filter(|(_, to, _)| to.ip().to_string() == "203.0.113.66");
    assert_eq!(to_thief.count(), 1);
}

#[test]
fn a_named_address_is_another_path() {
    let mut world = World::trusting();
    let mut value = init_value(0xc1);
    value.extend([0, 5, 0, 8, 198, 51, 100, 1]);
    world.send(0, "192.0.2.2:9899", &packet(PORTS, 0, kind::INIT, &value));
    world.secs(1);
    assert_eq!(world.hosts[1].inits[0].addresses, ["198.51.100.1".parse::<IpAddr>().unwrap()]);
    world.answer(0xc1, 0x51);
    world.secs(1);
    let second = at("198.51.100.1:1001");
    world.nat.insert(world.hosts[0].address, second);
    world.up(b"second path.");
    world.secs(1);
    assert_eq!(world.hosts[1].received.last().unwrap().0, second);
    world.send(1, "198.51.100.1:1001", &data((PORTS.1, PORTS.0), 0xc1, b"to it..."));
    assert_eq!(world.log.last().unwrap().1, second);
}

#[test]
fn another_address_of_a_silent_server_is_tried() {
    let mut world = World::trusting();
    world.send(0, "203.0.113.1:9899", &init(PORTS, 0xc1));
    world.secs(1);
    world.send(0, "192.0.2.2:9899", &init(PORTS, 0xc1));
    world.secs(2);
    assert_eq!(world.hosts[1].received.len(), 1);
    assert_eq!(world.hosts[0].layer.stats().connections, 1);
}
