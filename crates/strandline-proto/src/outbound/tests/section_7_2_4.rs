//! Fast retransmit and fast recovery.

use super::*;

#[test]
fn third_miss_indication_starts_fast_recovery() {
    let mut fixture = Fixture::with_outstanding(6);
    for last in [2, 3] {
        let (outcome, acks) = fixture.sack(1, &[(2, last)]);
        assert!(!applied(outcome).entered_fast_recovery);
        assert_eq!(acks[0].lost.bytes, 0);
    }
    let (outcome, acks) = fixture.sack(1, &[(2, 4)]);
    assert!(applied(outcome).entered_fast_recovery && !applied(outcome).in_fast_recovery);
    assert_eq!((acks[0].lost.bytes, acks[0].begins_congestion_event), (ROOM as u32, true));
    assert!(fixture.out.in_fast_recovery());
    let next = Retransmission { size: ROOM, last_path: at(0), fast: true, repeated: false, probe: false };
    assert_eq!(fixture.out.retransmission(), Some(next));
    assert_eq!(fixture.tsns(0), [1]);
}

/// Rule 3.
#[test]
fn one_packet_goes_regardless_of_cwnd() {
    let mut fixture = Fixture::with_outstanding(10);
    for last in 4..7 {
        fixture.sack(0, &[(3, last)]);
    }
    assert!(fixture.out.fast_retransmit_pending());
    assert_eq!(fixture.again(0, ROOM).unwrap().tsn, 0);
    assert!(fixture.out.fast_retransmit_pending(), "the packet may take more chunks");
    fixture.out.fast_retransmit_sent();
    assert!(!fixture.out.fast_retransmit_pending());
    assert!(fixture.out.has_retransmissions(), "the others wait for cwnd");
    fixture.sack(0, &[(3, 9)]);
    assert!(!fixture.out.fast_retransmit_pending(), "once for each fast recovery");
}

/// Nothing is left to send if the chunk arrives after all.
#[test]
fn late_arrival_ends_the_need_for_the_packet() {
    let mut fixture = Fixture::with_outstanding(5);
    for last in 2..5 {
        fixture.sack(1, &[(2, last)]);
    }
    assert!(fixture.out.fast_retransmit_pending());
    let (outcome, acks) = fixture.sack(5, &[]);
    assert!(applied(outcome).all_acked);
    assert_eq!((acks[0].acked.bytes, acks[0].acked.flight_drop), (ROOM as u32, 0));
    assert!(!fixture.out.fast_retransmit_pending());
}

/// HTNA: only chunks below the highest one newly acknowledged are missing.
#[test]
fn only_chunks_below_new_acknowledgements_are_missing() {
    let mut fixture = Fixture::with_outstanding(10);
    fixture.sack(0, &[(5, 5)]);
    // Fills gaps below 5: 3 and 4 stay missing, but are above the newly acknowledged 1 and 2.
    fixture.sack(0, &[(1, 1), (5, 5)]);
    let (_, acks) = fixture.sack(0, &[(1, 2), (5, 5)]);
    assert_eq!(acks[0].lost.bytes, ROOM as u32, "only 0 has three indications");
    assert_eq!(fixture.tsns(0), [0]);
}

/// A SACK without new acknowledgements is no miss indication.
#[test]
fn repeated_sacks_are_no_miss_indications() {
    let mut fixture = Fixture::with_outstanding(4);
    for _ in 0..10 {
        let (outcome, _) = fixture.sack(0, &[(1, 1)]);
        assert!(!applied(outcome).entered_fast_recovery);
    }
    assert!(!fixture.out.has_retransmissions());
}

/// In fast recovery, if the ack point advances, everything reported missing counts.
#[test]
fn in_recovery_a_cumulative_advance_counts_for_all() {
    let mut fixture = Fixture::with_outstanding(12);
    for last in 2..5 {
        fixture.sack(0, &[(1, last)]);
    }
    assert!(fixture.out.in_fast_recovery());
    assert_eq!(fixture.tsns(0), [0]);
    fixture.sack(0, &[(1, 4), (7, 7)]); // 5 and 6: first indication.
    let (outcome, _) = fixture.sack(1 + 4, &[(7, 7)]); // HTNA is 0, but the ack point moves: second.
    assert!(applied(outcome).in_fast_recovery);
    assert!(!fixture.out.has_retransmissions());
    let (outcome, acks) = fixture.sack(5, &[(7, 8)]); // Third, by HTNA.
    assert!(!applied(outcome).entered_fast_recovery);
    assert_eq!((acks[0].lost.bytes, acks[0].begins_congestion_event), (2 * ROOM as u32, false));
    assert_eq!(fixture.tsns(0), [5, 6]);
}

/// Outside of fast recovery an advance of the ack point alone is no indication for chunks above it.
#[test]
fn outside_recovery_a_cumulative_advance_counts_nothing() {
    let mut fixture = Fixture::with_outstanding(12);
    fixture.sack(0, &[(6, 6)]);
    for next in 1..5 {
        fixture.sack(next, &[(6, 6)]);
    }
    assert!(!fixture.out.has_retransmissions());
    fixture.sack(4, &[(6, 7)]);
    fixture.sack(4, &[(6, 8)]);
    assert_eq!(fixture.tsns(0), [4, 5]);
}

/// Rule 5: once for a TSN; its second loss is left to T3-rtx.
#[test]
fn chunk_is_fast_retransmitted_once() {
    let mut fixture = Fixture::with_outstanding(20);
    for last in 1..4 {
        fixture.sack(0, &[(1, last)]);
    }
    assert_eq!(fixture.tsns(0), [0]);
    for last in 4..20 {
        fixture.sack(0, &[(1, last)]);
    }
    assert!(!fixture.out.has_retransmissions());
    fixture.timeout(0);
    assert_eq!(fixture.tsns(0), [0]);
}

/// Rule 6: recovery ends when everything that was outstanding at its start is acknowledged.
#[test]
fn exit_point_is_the_highest_outstanding_chunk() {
    let mut fixture = Fixture::with_outstanding(6);
    for last in 1..4 {
        fixture.sack(0, &[(1, last)]);
    }
    assert_eq!(fixture.tsns(0), [0]);
    for _ in 0..3 {
        fixture.push(FULL);
        fixture.packet(0);
    }
    let (outcome, _) = fixture.sack(5, &[]);
    assert!(applied(outcome).in_fast_recovery, "5 is the exit point");
    let (outcome, _) = fixture.sack(6, &[]);
    assert!(!applied(outcome).in_fast_recovery);
    assert!(!fixture.out.in_fast_recovery());
}

/// Loss in a second window is a second fast recovery.
#[test]
fn fast_recovery_can_begin_again() {
    let mut fixture = Fixture::with_outstanding(4);
    for last in 1..4 {
        fixture.sack(0, &[(1, last)]);
    }
    fixture.tsns(0);
    fixture.sack(4, &[]);
    for _ in 0..4 {
        fixture.push(FULL);
        fixture.packet(0);
    }
    fixture.sack(4, &[(5, 5)]);
    fixture.sack(4, &[(5, 6)]);
    let (outcome, acks) = fixture.sack(4, &[(5, 7)]);
    assert!(applied(outcome).entered_fast_recovery && acks[0].begins_congestion_event);
}

/// Rule 2: the destinations where the missing chunks were last sent, and only those.
#[test]
fn only_the_paths_with_loss_are_told() {
    let mut fixture = Fixture::new();
    for path in [1, 2, 0, 0, 0] {
        fixture.push(FULL);
        fixture.packet(path);
    }
    for last in 2..5 {
        fixture.sack(0, &[(2, last)]);
    }
    assert_eq!(fixture.tsns(1), [0, 1]);
    let mut fixture = Fixture::new();
    for path in [1, 0, 0, 0] {
        fixture.push(FULL);
        fixture.packet(path);
    }
    fixture.sack(0, &[(1, 1)]);
    fixture.sack(0, &[(1, 2)]);
    let (_, acks) = fixture.sack(0, &[(1, 3)]);
    assert!(acks[1].begins_congestion_event && !acks[0].begins_congestion_event);
    assert_eq!((acks[1].lost.bytes, acks[0].lost.bytes), (ROOM as u32, 0));
}

/// T3-rtx ends fast recovery, so that slow start can grow cwnd.
#[test]
fn timeout_ends_fast_recovery() {
    let mut fixture = Fixture::with_outstanding(6);
    for last in 1..4 {
        fixture.sack(0, &[(1, last)]);
    }
    fixture.timeout(0);
    assert!(!fixture.out.in_fast_recovery());
    let (outcome, _) = fixture.sack(1, &[(2, 3)]);
    assert!(!applied(outcome).in_fast_recovery);
}
