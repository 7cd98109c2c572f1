use PeerSide::{Client, Server};

use super::*;

fn peer(number: u32) -> SocketAddr {
    let [.., b, c, d] = number.to_be_bytes();
    SocketAddr::from(([127, b, c, d], 9899))
}

#[test]
fn a_failing_peer_is_reported_once() {
    let mut reported = ReportedFailures::default();
    let mut is_new = |number, failure: Failure| reported.is_new(peer(number), Server, &failure);
    assert!(is_new(1, Failure::TimedOut));
    assert!((0..100).all(|_| !is_new(1, Failure::TimedOut)));
    assert!(is_new(1, Failure::Unreachable), "another reason");
    assert!(!is_new(1, Failure::TimedOut), "by turns");
    assert!(is_new(2, Failure::TimedOut), "another peer");
    reported.on_established(peer(1), Server);
    assert!(reported.is_new(peer(1), Server, &Failure::TimedOut), "after it was connected");
    assert!(!reported.is_new(peer(2), Server, &Failure::TimedOut));
}

/// A client whose attempts come from ever new ports, and to sockets of both IP versions.
#[test]
fn ports_make_no_other_client() {
    let mut reported = ReportedFailures::default();
    let mut is_new = |address: &str| reported.is_new(address.parse().unwrap(), Client, &Failure::TimedOut);
    assert!(is_new("192.0.2.1:1000"));
    assert!(!is_new("192.0.2.1:1001") && !is_new("[::ffff:192.0.2.1]:1002"));
    assert!(is_new("[2001:db8::1]:1000") && !is_new("[2001:db8::1]:1001"));
    reported.on_established("192.0.2.1:1003".parse().unwrap(), Client);
    assert!(reported.is_new("192.0.2.1:1000".parse().unwrap(), Client, &Failure::TimedOut));
}

/// Two servers behind one address, as of a NAT, and a client there.
#[test]
fn ports_make_other_servers() {
    let mut reported = ReportedFailures::default();
    let [first, second] = ["192.0.2.1:9899", "192.0.2.1:9900"].map(|address| address.parse().unwrap());
    assert!(reported.is_new(first, Server, &Failure::TimedOut));
    assert!(reported.is_new(second, Server, &Failure::TimedOut));
    assert!(reported.is_new(first, Client, &Failure::TimedOut));
    reported.on_established(first, Client);
    reported.on_established(second, Server);
    assert!(!reported.is_new(first, Server, &Failure::TimedOut), "another peer was connected");
    assert!(reported.is_new(second, Server, &Failure::TimedOut));
}

/// One link-local address on two links is of two peers.
#[test]
fn links_make_other_peers() {
    let mut reported = ReportedFailures::default();
    for side in [Client, Server] {
        let mut is_new = |address: &str| reported.is_new(address.parse().unwrap(), side, &Failure::TimedOut);
        assert!(is_new("[fe80::1%2]:9899") && is_new("[fe80::1%3]:9899"), "{side:?}");
        assert!(!is_new("[fe80::1%2]:9899") && !is_new("[fe80::1%3]:9899"), "{side:?}");
    }
}

#[test]
fn few_failures_are_remembered() {
    let mut reported = ReportedFailures::default();
    for number in 0..2 * PEERS_MAX as u32 {
        assert!(reported.is_new(peer(number), Server, &Failure::TimedOut));
        assert!(reported.0.len() <= PEERS_MAX);
    }
    for number in 0..100 {
        assert!(reported.is_new(peer(0), Server, &Failure::Dtls(number.to_string())));
    }
    assert_eq!(reported.0[&Peer::of(peer(0), Server)].len(), FAILURES_MAX);
}
