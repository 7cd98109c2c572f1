use std::sync::Arc;
use std::time::Duration;

use super::PeerLimits;
use crate::clock::now;

#[test]
fn connections_of_a_peer_are_limited() {
    let (limits, now) = (Arc::new(PeerLimits::new(2, 100)), now());
    let (one, other) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let first = limits.take(one, now);
    let second = limits.take(one, now);
    assert!(first.is_some() && second.is_some() && limits.take(one, now).is_none());
    assert!(limits.take(other, now).is_some(), "another peer has its own limit");
    drop(first);
    assert!(limits.take(one, now).is_some());
}

#[test]
fn new_connections_have_a_rate() {
    let (limits, now) = (Arc::new(PeerLimits::new(1000, 10)), now());
    let peer = [192, 0, 2, 1].into();
    let taken = |now| (0..100).filter(|_| limits.take(peer, now).is_some()).count();
    assert_eq!(taken(now), 10);
    assert_eq!(taken(now + Duration::from_millis(500)), 5);
    assert_eq!(taken(now + Duration::from_secs(100)), 10);
}
