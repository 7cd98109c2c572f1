//! Changes of what is trusted while connections exist.

use super::*;

impl Host {
    fn replace(&mut self, now: Instant, config: Config) {
        self.layer.replace_config(now, config, &mut self.packets).unwrap();
    }
}

impl World {
    fn replace(&mut self, host: usize, config: Config) {
        let now = self.now;
        self.hosts[host].replace(now, config);
        self.collect(host);
        self.secs(1);
    }

    /// Whether data passes in both directions.
    fn passes(&mut self) -> bool {
        self.hosts.iter_mut().for_each(|host| host.received.clear());
        self.up(b"question");
        self.down(b"answer..");
        self.secs(1);
        self.texts(1) == [b"question"] && self.texts(0) == [b"answer.."]
    }
}

#[test]
fn a_revoked_client_is_cut_off() {
    let (client, server, other) = (identity(), identity(), identity());
    let mut world = World::new(config(&client, &[&server]), config(&server, &[&client]));
    world.associate();
    world.replace(1, config(&server, &[&client, &other]));
    assert!(world.passes(), "one that is still trusted goes on");
    world.hosts.iter_mut().for_each(|host| host.received.clear());
    world.replace(1, config(&server, &[&other]));
    let unknown = Failure::Trust(TrustError::UnknownClient(client.fingerprint()));
    assert_eq!(world.hosts[1].failure(), Some(&unknown));
    assert_eq!(world.hosts[0].failure(), Some(&Failure::Refused(client.fingerprint())));
    for host in &world.hosts {
        assert_eq!(host.received.last().unwrap().1[12], kind::ABORT, "the engine learns of it");
        assert_eq!(host.layer.stats().connections, 0);
    }
}

#[test]
fn a_revoked_server_is_left() {
    let (client, server) = (identity(), identity());
    let mut world = World::new(config(&client, &[&server]), config(&server, &[&client]));
    world.associate();
    world.replace(0, config(&client, &[]));
    assert!(matches!(world.hosts[0].failure(), Some(Failure::Trust(TrustError::UnknownServer { .. }))));
    assert_eq!(world.hosts[1].failure(), Some(&Failure::Closed));
    for host in &world.hosts {
        assert_eq!(host.received.last().unwrap().1[12], kind::ABORT);
    }
}

#[test]
fn anonymous_clients_stay_while_allowed() {
    let (client, server) = (identity(), identity());
    let mut open = config(&server, &[]);
    open.anonymous_clients = true;
    let mut world = World::new(config(&client, &[&server]), open.clone());
    world.associate();
    world.replace(1, open);
    assert!(world.passes());
    world.replace(1, config(&server, &[]));
    assert!(matches!(world.hosts[1].failure(), Some(Failure::Trust(_))));
    assert_eq!(world.hosts[1].layer.stats().connections, 0);
}

#[test]
fn another_key_is_for_handshakes_to_come() {
    let (client, server, next) = (identity(), identity(), identity());
    let mut world = World::new(config(&client, &[&server, &next]), config(&server, &[&client]));
    world.associate();
    world.replace(1, config(&next, &[&client]));
    assert!(world.passes());
    world.hosts[0].layer.close(world.now);
    world.collect(0);
    world.secs(1);
    world.hosts.iter_mut().for_each(|host| host.received.clear());
    world.associate();
    let key = world.hosts[0].layer.peer_identity(0xc1).map(|peer| peer.fingerprint);
    assert_eq!(key, Some(next.fingerprint()));
}
