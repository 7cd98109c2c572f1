//! Servers that lose their connections.

use super::*;

/// A client with an association, and its server, which starts again.
struct Restart {
    world: World,
    server: Config,
}

impl Restart {
    fn new() -> Self {
        let (client, server) = (identity(), identity());
        let server = config(&server, &[&client]);
        let mut world = World::new(config(&client, &[&server.identity]), server.clone());
        world.associate();
        Self { world, server }
    }

    fn restart(&mut self) {
        self.world.hosts[1] = Host::new(self.server.clone(), "192.0.2.2:9899", 9, self.world.now);
    }

    /// Returns what the server answers to a datagram of the client, as if it came from an address.
    fn reset(&mut self, from: &str) -> Vec<u8> {
        let World { hosts, now, .. } = &mut self.world;
        let burst = data(PORTS, 0x51, b"lost");
        let mut sealed = vec![0; 200];
        let burst = Burst {
            destination: at("192.0.2.2:9899"),
            source: None,
            bytes: &burst,
            segment_size: burst.len(),
        };
        let len = hosts[0].layer.seal(*now, &burst, &mut sealed).unwrap().len;
        self.world.deliver(1, at(from), &sealed[..len]);
        self.world.flying.clear();
        let (_, _, answer) = self.world.log.last().unwrap().clone();
        assert_eq!(answer[0], 12, "a Reset");
        assert!(answer.len() < len);
        answer
    }
}

#[test]
fn a_restarted_server_is_noticed_at_once() {
    let Restart { mut world, server } = Restart::new();
    world.hosts[1] = Host::new(server, "192.0.2.2:9899", 9, world.now);
    world.up(b"anybody?");
    world.run(Duration::from_millis(20));
    assert_eq!(world.hosts[0].failure(), Some(&Failure::Reset));
    let (from, abort) = &world.hosts[0].received[0];
    assert_eq!((*from, abort[12]), (at("192.0.2.2:9899"), kind::ABORT), "the engine learns of it");
    world.hosts[0].received.clear();
    world.associate();
}

#[test]
fn a_restarted_server_is_noticed_behind_a_nat() {
    let (client, server) = (identity(), identity());
    let server = config(&server, &[&client]);
    let mut world = World::new(config(&client, &[&server.identity]), server.clone());
    world.nat.insert(at("192.0.2.1:1001"), at("203.0.113.1:7"));
    world.associate();
    world.hosts[1] = Host::new(server, "192.0.2.2:9899", 9, world.now);
    world.up(b"anybody?");
    world.secs(1);
    assert_eq!(world.hosts[0].failure(), Some(&Failure::Reset));
}

#[test]
fn an_init_outlives_a_lost_connection() {
    let mut restart = Restart::new();
    restart.restart();
    let world = &mut restart.world;
    for _ in 0..2 {
        world.send(0, "192.0.2.2:9899", &init((7, 8), 0xc2));
        world.secs(1);
    }
    assert_eq!(world.hosts[1].received.len(), 1, "by another connection");
    let aborted = |(_, packet): &(SocketAddr, Vec<u8>)| packet[4..8] == [0, 0, 0, 0xc2];
    assert!(!world.hosts[0].received.iter().any(aborted));
}

#[test]
fn only_the_server_resets_a_connection() {
    let mut restart = Restart::new();
    let before = restart.world.now;
    let live = std::mem::replace(
        &mut restart.world.hosts[1],
        Host::new(restart.server.clone(), "192.0.2.2:9899", 9, before),
    );
    // Asked from elsewhere, the answer is another one.
    let stolen = restart.reset("203.0.113.9:1");
    let right = restart.reset("192.0.2.1:1001");
    let other = config(&identity(), &[]);
    restart.world.hosts[1] = Host::new(other, "192.0.2.2:9899", 9, before);
    let of_other = restart.reset("192.0.2.1:1001");
    restart.world.hosts[1] = live;
    let Restart { mut world, .. } = restart;
    let server = at("192.0.2.2:9899");
    let mut changed = right.clone();
    changed[24] ^= 1;
    for (from, reset) in [
        (server, &stolen[..]),
        (server, &of_other),
        (server, &changed),
        (server, &right[..24]),
        (server, &right[..9]),
        (at("192.0.2.2:9898"), &right),
    ] {
        world.deliver(0, from, reset);
    }
    assert_eq!(world.hosts[0].failure(), None);
    world.up(b"still up");
    world.secs(1);
    assert_eq!(world.texts(1), [b"still up"]);
    world.deliver(0, server, &right);
    assert_eq!(world.hosts[0].failure(), Some(&Failure::Reset));
}

#[test]
fn a_reset_reaches_the_shard_of_the_client() {
    let (client, server) = (identity(), identity());
    let mut world = World::new(config(&client, &[&server]), config(&server, &[&client]));
    let wall = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
    let layer = |own: &Identity, peer: &Identity, shard, now| {
        Layer::new(Arc::new(config(own, &[peer])), shard, [4; 32], now, wall).unwrap()
    };
    world.hosts[0].layer = layer(&client, &server, Shard { index: 5, bits: 3 }, world.now);
    let of_server = Shard { index: 2, bits: 2 };
    world.hosts[1].layer = layer(&server, &client, of_server, world.now);
    world.associate();
    world.hosts[1].layer = layer(&server, &client, of_server, world.now);
    world.log.clear();
    world.up(b"anybody?");
    world.secs(1);
    let (_, _, reset) = world.log.iter().find(|(.., bytes)| bytes[0] == 12).unwrap();
    assert_eq!(reset[8] & 7, 5);
    assert_eq!(world.hosts[0].failure(), Some(&Failure::Reset));
    world.hosts.iter_mut().for_each(|host| host.received.clear());
    // A shard that is asked for another's connection knows nothing of it.
    world.hosts[1].layer = layer(&server, &client, Shard { index: 1, bits: 2 }, world.now);
    world.associate();
    let of_other = Shard { index: 3, bits: 2 };
    world.hosts[1].layer = layer(&server, &client, of_other, world.now);
    world.log.clear();
    world.up(b"anybody?");
    world.secs(1);
    assert!(world.log.iter().all(|(.., bytes)| bytes[0] != 12));
}
