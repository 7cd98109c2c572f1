use std::net::SocketAddr;

use super::*;

fn peer(number: u32) -> IpAddr {
    let [.., b, c, d] = number.to_be_bytes();
    IpAddr::from([127, b, c, d])
}

#[test]
fn a_failing_peer_is_reported_once() {
    let mut reported = ReportedFailures::default();
    let mut is_new = |number, failure: Failure| reported.is_new(peer(number), &failure);
    assert!(is_new(1, Failure::TimedOut));
    assert!((0..100).all(|_| !is_new(1, Failure::TimedOut)));
    assert!(is_new(1, Failure::Unreachable), "another reason");
    assert!(!is_new(1, Failure::TimedOut), "by turns");
    assert!(is_new(2, Failure::TimedOut), "another peer");
    reported.on_established(peer(1));
    assert!(reported.is_new(peer(1), &Failure::TimedOut), "after it was connected");
    assert!(!reported.is_new(peer(2), &Failure::TimedOut));
}

/// A client whose attempts come from ever new ports, and to sockets of both IP versions.
#[test]
fn ports_make_no_other_peer() {
    let mut reported = ReportedFailures::default();
    let mut is_new = |address: &str| {
        let address: SocketAddr = address.parse().unwrap();
        reported.is_new(address.ip(), &Failure::TimedOut)
    };
    assert!(is_new("192.0.2.1:1000"));
    assert!(!is_new("192.0.2.1:1001") && !is_new("[::ffff:192.0.2.1]:1002"));
    assert!(is_new("[2001:db8::1]:1000") && !is_new("[2001:db8::1]:1001"));
    reported.on_established(IpAddr::from([192, 0, 2, 1]).to_canonical());
    assert!(reported.is_new(IpAddr::from([192, 0, 2, 1]), &Failure::TimedOut));
}

#[test]
fn few_failures_are_remembered() {
    let mut reported = ReportedFailures::default();
    for number in 0..2 * PEERS_MAX as u32 {
        assert!(reported.is_new(peer(number), &Failure::TimedOut));
        assert!(reported.0.len() <= PEERS_MAX);
    }
    for number in 0..100 {
        assert!(reported.is_new(peer(0), &Failure::Dtls(number.to_string())));
    }
    assert_eq!(reported.0[&peer(0)].len(), FAILURES_MAX);
}
