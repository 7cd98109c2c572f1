//! RFC 8985 section 7: the contents of tail-loss probes. The path determines when one is due.

use super::*;

#[test]
fn new_data_is_the_best_probe() {
    let mut fixture = Fixture::with_rack(3);
    fixture.push(FULL);
    assert_eq!(fixture.out.on_probe(Time::ZERO, at(0), true), 0);
    assert_eq!(fixture.tsns(0), [3]);
}

/// Section 7.3: without new data the highest chunk in flight is retransmitted; it is not declared lost.
#[test]
fn else_the_last_chunk_goes_again() {
    let mut fixture = Fixture::with_rack(3);
    let bytes = fixture.out.on_probe(Time::ZERO, at(0), true);
    fixture.flight[0] -= bytes;
    assert_eq!(bytes, ROOM as u32);
    assert_eq!(fixture.tsns(0), [2]);
    assert!(!fixture.out.in_fast_recovery());
}

/// New data that the peer has no room for does not count.
#[test]
fn a_closed_window_leaves_only_what_was_sent() {
    let mut fixture = Fixture::with_rack(3);
    fixture.a_rwnd = 2 * FULL as u32;
    fixture.sack(1, &[]);
    fixture.push(FULL);
    let bytes = fixture.out.on_probe(Time::ZERO, at(0), true);
    fixture.flight[0] -= bytes;
    assert_eq!(fixture.tsns(0), [2]);
}

/// Section 7.4.1: the answer to the probe shows what else was lost, even if it is a little faster than that to a
/// packet of a train, since the probe is sent alone.
#[test]
fn the_answer_shows_a_lost_tail() {
    for answered_after in [100, 95] {
        let mut fixture = Fixture::with_rack(5);
        fixture.sack(2, &[]);
        fixture.wait(200);
        let bytes = fixture.out.on_probe(Time::ZERO, at(0), true);
        fixture.flight[0] -= bytes;
        assert_eq!(fixture.tsns(0), [4]);
        fixture.wait(answered_after);
        let (_, acks) = fixture.sack(2, &[(4, 4)]);
        assert_eq!((acks[0].lost.bytes, acks[0].begins_congestion_event), (2 * ROOM as u32, true));
        assert_eq!(fixture.tsns(0), [2, 3]);
    }
}

/// Section 7.4.2: the probe itself repaired the only loss, which still counts as congestion. That shows when later
/// data has arrived and the peer reported no second copy.
#[test]
fn a_loss_that_the_probe_repaired_counts() {
    let mut fixture = Fixture::with_rack(3);
    fixture.sack(2, &[]);
    fixture.wait(200);
    let bytes = fixture.out.on_probe(Time::ZERO, at(0), true);
    fixture.flight[0] -= bytes;
    fixture.packet(0);
    fixture.wait(100);
    let (_, acks) = fixture.sack(3, &[]);
    assert!(!acks[0].begins_congestion_event);
    fixture.push(FULL);
    fixture.packet(0);
    fixture.wait(100);
    let (_, acks) = fixture.sack(4, &[]);
    assert!(acks[0].begins_congestion_event && !acks[0].in_recovery);
}

#[test]
fn a_needless_probe_counts_for_nothing() {
    let mut fixture = Fixture::with_rack(3);
    fixture.sack(2, &[]);
    let bytes = fixture.out.on_probe(Time::ZERO, at(0), true);
    fixture.flight[0] -= bytes;
    fixture.packet(0);
    fixture.wait(50);
    fixture.sack(3, &[]);
    fixture.wait(50);
    fixture.sack_twice(3, &[], &[2]);
    fixture.push(FULL);
    fixture.packet(0);
    fixture.wait(100);
    let (_, acks) = fixture.sack(4, &[]);
    assert!(!acks[0].begins_congestion_event);
}
