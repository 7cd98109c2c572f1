use std::sync::Arc;
use std::time::Duration;

use strandline::encryption::Fingerprint;

use super::PeerLimits;
use crate::clock::now;
use crate::config::Limits;
use crate::peer_identity::PeerIdentity;

/// A peer at an address, without a key.
fn at(address: [u8; 4]) -> PeerIdentity {
    PeerIdentity { address: address.into(), key: None }
}

/// Limits of connections, and of 2 associations.
fn limits(connections_max: u32, connections_per_sec: u32) -> Arc<PeerLimits> {
    let limits = Limits {
        associations_max: 2,
        connections_max,
        connections_per_sec,
        bytes_per_sec: 0,
        connect_timeout: Duration::ZERO,
        keepalive: None,
        buffer_mib: 4,
        buffer_total_mib: 4,
    };
    Arc::new(PeerLimits::new(&limits))
}

/// UDP flows, which strangers can begin, take neither places of connections nor their rate.
#[test]
fn flows_take_nothing_from_connections() {
    let (limits, peer, now) = (limits(16, 20), at([192, 0, 2, 1]), now());
    let flow = || limits.take_flow(peer, now);
    let flows: Vec<_> = (0..100).map_while(|_| flow()).collect();
    assert_eq!(flows.len(), 4);
    let connections: Vec<_> = (0..100).map_while(|_| limits.take(peer, now)).collect();
    assert_eq!(connections.len(), 16);
    assert!(limits.take_flow(peer, now).is_none(), "as many as there may be");
    drop(flows);
    assert!(limits.take_flow(peer, now).is_some(), "connections take nothing from flows");
    assert!(limits.take(peer, now).is_none(), "the end of a flow is not that of a connection");
}

#[test]
fn associations_of_a_peer_are_limited() {
    let (limits, now) = (limits(1, 1), now());
    let key = |text: &[u8]| Some(Fingerprint::of_key(text));
    let one = PeerIdentity { key: key(b"one"), ..at([192, 0, 2, 1]) };
    let first = limits.join(one, now);
    let second = limits.join(PeerIdentity { address: [192, 0, 2, 2].into(), ..one }, now);
    assert!(first.is_ok() && second.is_ok());
    assert_eq!((limits.join(one, now).err(), limits.refused()), (Some(2), 1));
    assert!(
        limits.join(PeerIdentity { key: None, ..one }, now).is_ok(),
        "by its address, it is another peer"
    );
    drop(first);
    assert!(limits.join(one, now).is_ok());
}

#[test]
fn connections_of_a_peer_are_limited() {
    let (limits, now) = (limits(2, 100), now());
    let (one, other) = (at([192, 0, 2, 1]), at([192, 0, 2, 2]));
    let first = limits.take(one, now);
    let second = limits.take(one, now);
    assert!(first.is_some() && second.is_some() && limits.take(one, now).is_none());
    assert!(limits.take(other, now).is_some(), "another peer has its own limit");
    drop(first);
    assert!(limits.take(one, now).is_some());
}

#[test]
fn new_connections_have_a_rate() {
    let (limits, now) = (limits(1000, 10), now());
    let peer = at([192, 0, 2, 1]);
    let taken = |now| (0..100).filter(|_| limits.take(peer, now).is_some()).count();
    assert_eq!(taken(now), 10);
    assert_eq!(taken(now + Duration::from_millis(500)), 5);
    assert_eq!(taken(now + Duration::from_secs(100)), 10);
}

#[test]
fn limits_follow_keys_instead_of_addresses() {
    let (limits, now) = (limits(1, 100), now());
    let key = |text: &[u8]| Some(Fingerprint::of_key(text));
    let one = PeerIdentity { key: key(b"one"), ..at([192, 0, 2, 1]) };
    let held = limits.take(one, now);
    assert!(
        held.is_some() && limits.take(PeerIdentity { address: [192, 0, 2, 9].into(), ..one }, now).is_none()
    );
    assert!(
        limits.take(PeerIdentity { key: key(b"other"), ..one }, now).is_some(),
        "another key behind the same address"
    );
}
