#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use core::time::Duration;

use super::*;

const NOW: Time = Time::from_nanos(1_000_000_000);

fn config() -> AssociationConfig {
    AssociationConfig::default()
}

/// A policy that has sent its first SACK.
fn begun() -> SackPolicy {
    let mut policy = SackPolicy::new();
    policy.on_chunk(false);
    policy.on_packet_end(NOW, false, false, &config());
    policy.on_sent();
    policy
}

fn packet(policy: &mut SackPolicy, now: Time) {
    policy.on_chunk(false);
    policy.on_packet_end(now, false, false, &config());
}

#[test]
fn the_first_data_is_acknowledged_at_once() {
    let mut policy = SackPolicy::new();
    assert!(!policy.pending());
    packet(&mut policy, NOW);
    assert!(policy.due(NOW));
    policy.on_sent();
    packet(&mut policy, NOW);
    assert!(!policy.due(NOW));
}

/// Section 6.2: at least every second packet, and within SACK.Delay.
#[test]
fn every_second_packet_or_after_the_delay() {
    let mut policy = begun();
    packet(&mut policy, NOW);
    assert!(!policy.due(NOW) && policy.pending());
    assert_eq!(policy.deadline(), NOW + Duration::from_millis(200));
    assert!(policy.due(NOW + Duration::from_millis(200)));
    packet(&mut policy, NOW + Duration::from_millis(5));
    assert!(policy.due(NOW + Duration::from_millis(5)));
    policy.on_sent();
    assert!(!policy.pending());
    assert_eq!(policy.deadline(), Time::MAX);
}

#[test]
fn the_delay_counts_from_the_first_packet_that_waits() {
    let config = AssociationConfig { sack_frequency: 10, ..config() };
    let mut policy = begun();
    for ms in 0..5 {
        policy.on_chunk(false);
        policy.on_packet_end(NOW + Duration::from_millis(ms), false, false, &config);
    }
    assert_eq!(policy.deadline(), NOW + Duration::from_millis(200));
}

/// Packets count, not chunks.
#[test]
fn a_packet_of_many_chunks_counts_once() {
    let mut policy = begun();
    for _ in 0..5 {
        policy.on_chunk(false);
    }
    policy.on_packet_end(NOW, false, false, &config());
    assert!(!policy.due(NOW));
}

#[test]
fn a_packet_without_data_changes_nothing() {
    let mut policy = begun();
    policy.on_packet_end(NOW, true, true, &config());
    assert!(!policy.pending());
}

#[test]
fn urgent_packets_are_acknowledged_at_once() {
    type Case = (&'static str, fn(&mut SackPolicy));
    let cases: [Case; 5] = [
        ("I bit or a gap before", |policy| {
            policy.on_chunk(true);
            policy.on_packet_end(NOW, false, false, &config());
        }),
        ("a gap after", |policy| {
            policy.on_chunk(false);
            policy.on_packet_end(NOW, true, false, &config());
        }),
        ("shutdown", |policy| {
            policy.on_chunk(false);
            policy.on_packet_end(NOW, false, true, &config());
        }),
        ("a duplicate", |policy| {
            policy.on_chunk(false);
            policy.on_duplicate(Tsn(1));
            policy.on_packet_end(NOW, false, false, &config());
        }),
        ("dropped", |policy| {
            policy.on_chunk(false);
            policy.on_dropped();
            policy.on_packet_end(NOW, false, false, &config());
        }),
    ];
    for (name, case) in cases {
        let mut policy = begun();
        case(&mut policy);
        assert!(policy.due(NOW), "{name}");
        policy.on_sent();
        packet(&mut policy, NOW);
        assert!(!policy.due(NOW), "{name}: only for its own packet");
    }
}

#[test]
fn duplicates_are_listed_once_for_each_arrival_and_bounded() {
    let mut policy = begun();
    policy.on_duplicate(Tsn(19));
    policy.on_duplicate(Tsn(19));
    assert_eq!(policy.duplicates(), [Tsn(19), Tsn(19)]);
    policy.on_sent();
    assert!(policy.duplicates().is_empty());
    for tsn in 0..1000 {
        policy.on_duplicate(Tsn(tsn));
    }
    assert_eq!(policy.duplicates().len(), DUPLICATES_MAX);
    policy.release_idle();
    assert!(policy.heap_bytes() > 0, "not reported yet");
    policy.on_sent();
    policy.release_idle();
    assert_eq!(policy.heap_bytes(), 0);
}
