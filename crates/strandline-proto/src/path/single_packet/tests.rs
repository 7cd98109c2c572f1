#![allow(clippy::unwrap_used)]

use crate::config::AssociationConfig;
use crate::path::Path;
use crate::time::Time;

use super::*;
use crate::path::Link;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const RTT: Duration = ms(10);

fn path() -> Path {
    let config = AssociationConfig { path_mtu_initial: 1500, ..AssociationConfig::default() };
    let mut path = Path::new("192.0.2.1:9899".parse().unwrap(), None, &config, Link::UDP, Time::ZERO);
    path.confirm();
    path
}

fn send(path: &mut Path, bytes: u32, asks: bool) {
    path.on_data_sent(Time::ZERO, bytes as usize + 12, bytes, true, asks);
}

const SOON: Duration = ms(22);
const LATE: Duration = ms(222);

#[test]
fn the_latest_packet_counts() {
    let mut path = path();
    send(&mut path, 100, false);
    assert_eq!(path.probe_wait(RTT), LATE);
    send(&mut path, 100, true);
    assert_eq!(path.probe_wait(RTT), SOON);
    send(&mut path, 100, false);
    assert_eq!(path.probe_wait(RTT), LATE);
    send(&mut path, 1460, false);
    assert_eq!(path.probe_wait(RTT), SOON, "a second packet brings the acknowledgement");
}

#[test]
fn needless_probe_shows_the_i_bit_is_ignored() {
    let mut path = path();
    send(&mut path, 100, true);
    path.on_probe(Time::ZERO);
    assert_eq!(path.probe_wait(RTT), SOON, "the next one");
    path.on_needless_probe();
    path.probes.on_acked();
    send(&mut path, 100, true);
    assert_eq!(path.probe_wait(RTT), LATE);
}

/// Probes sent for another reason do not show whether the peer heeds the I bit.
#[test]
fn only_a_probe_that_went_sooner_tells() {
    let reasons: [fn(&mut Path); 3] = [
        |path| send(path, 100, false),
        |path| {
            send(path, 1460, true);
            send(path, 100, true);
        },
        |path| {
            send(path, 100, true);
            path.set_gap_seen(true);
        },
    ];
    for (number, reason) in reasons.iter().enumerate() {
        let mut path = path();
        reason(&mut path);
        path.on_probe(Time::ZERO);
        path.on_needless_probe();
        path.probes.on_acked();
        path.flight = 0;
        path.set_gap_seen(false);
        send(&mut path, 100, true);
        assert_eq!(path.probe_wait(RTT), SOON, "{number}");
    }
}

const fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// Returns a path on which a probe was spurious and everything is acknowledged.
fn in_vain() -> Path {
    let mut path = path();
    send(&mut path, 100, true);
    path.on_probe(Time::ZERO);
    path.on_needless_probe();
    path.probes.on_acked();
    path.flight = 0;
    path.on_rtt(Time::ZERO + RTT, Time::ZERO, &AssociationConfig::default());
    path
}

#[test]
fn immediate_answer_shows_the_i_bit_works() {
    let mut path = in_vain();
    path.on_data_sent(at(1000), 112, 100, true, true);
    path.on_answered(at(1001), true);
    assert_eq!(path.probe_wait(RTT), LATE, "it was not that packet's answer");
    path.flight = 0;
    path.on_answered(at(1002), true);
    send(&mut path, 100, true);
    assert_eq!(path.probe_wait(RTT), SOON);
}

/// Answers that were delayed, came with data, or may have another cause do not show that the peer heeds the I bit.
#[test]
fn no_other_answer_does() {
    let answers: [(bool, bool, u32, u64, bool); 6] = [
        (true, true, 0, 200, true),
        // Delayed by less than usual, and longer than a probe waits.
        (true, true, 0, 40, true),
        (true, true, 0, 1, false),
        (true, false, 0, 1, true),
        (false, true, 0, 1, true),
        (true, true, 100, 1, true),
    ];
    for (first, asks, flight, after, bare) in answers {
        let mut path = in_vain();
        path.flight = flight;
        path.on_data_sent(at(1000), 112, 100, first, asks);
        path.flight = 0;
        path.on_answered(at(1000 + after), bare);
        path.on_answered(at(1001 + after), true);
        send(&mut path, 100, true);
        assert_eq!(path.probe_wait(RTT), LATE, "{first} {asks} {flight} {after} {bare}");
    }
}

/// Reports of duplicates may arrive after the next probe, which the I bit did not make come sooner.
#[test]
fn later_probe_does_not_hide_a_needless_one() {
    let mut path = path();
    send(&mut path, 100, true);
    path.on_probe(at(3));
    path.on_probe(at(7));
    path.on_needless_probe();
    path.probes.on_acked();
    path.flight = 0;
    send(&mut path, 100, true);
    assert_eq!(path.probe_wait(RTT), LATE);
}
