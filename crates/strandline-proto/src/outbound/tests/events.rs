//! Which losses are one congestion event (RFC 5681 section 4.3, RFC 9002 section 7.3.2), and which events are undone.

use super::*;

impl Fixture {
    /// Sends new chunks, one per millisecond.
    fn go_on(&mut self, chunks: usize) {
        for _ in 0..chunks {
            self.wait(1);
            self.push(FULL);
            self.packet(0);
        }
    }
}

/// Chunk 0 is lost again and again; meanwhile each round trip loses something that was sent in it.
#[test]
fn each_round_trip_with_losses_is_an_event() {
    let mut fixture = Fixture::with_rack(10);
    fixture.wait(9);
    let (_, acks) = fixture.sack(0, &[(1, 4)]);
    assert!(acks[0].begins_congestion_event && acks[0].in_recovery);
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(1);
    // Sent before that was known.
    let (_, acks) = fixture.sack(0, &[(1, 4), (6, 9)]);
    assert_eq!((acks[0].lost.bytes, acks[0].begins_congestion_event), (ROOM as u32, false));
    assert_eq!(fixture.tsns(0), [5]);
    fixture.go_on(10);
    fixture.wait(100);
    // 5 has arrived, and was sent after the beginning: the round trip is over. 0 is lost again, and so is 10.
    let (_, acks) = fixture.sack(0, &[(1, 9)]);
    assert!(acks[0].begins_congestion_event && acks[0].in_recovery, "the retransmission is lost");
    assert_eq!(fixture.tsns(0), [0]);
    let (_, acks) = fixture.sack(0, &[(1, 9), (11, 19)]);
    assert_eq!(
        (acks[0].lost.bytes, acks[0].begins_congestion_event),
        (ROOM as u32, false),
        "of the same flight"
    );
    assert_eq!(fixture.tsns(0), [10]);
    fixture.go_on(10);
    fixture.wait(100);
    let (_, acks) = fixture.sack(10, &[(11, 19)]);
    assert!(!acks[0].begins_congestion_event && !acks[0].in_recovery, "over, though 10 is still missing");
    let (_, acks) = fixture.sack(10, &[(11, 19), (21, 29)]);
    assert!(acks[0].begins_congestion_event);
}

/// Losses of data sent before T3-rtx expired belong to the time-out; the loss of a retransmission after it does not.
#[test]
fn retransmission_lost_after_time_out_is_new_event() {
    let mut fixture = Fixture::with_rack(4);
    fixture.wait(1000);
    let bytes = fixture.out.on_first_timeout(at(0), false, ROOM as u32);
    fixture.flight[0] -= bytes;
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(100);
    let (_, acks) = fixture.sack(1, &[]);
    assert_eq!((acks[0].lost.bytes, acks[0].begins_congestion_event), (3 * ROOM as u32, false));
    for tsn in 1..4 {
        fixture.wait(1);
        assert_eq!(fixture.packet(0)[0].tsn, tsn);
    }
    fixture.wait(150);
    let (_, acks) = fixture.sack(1, &[(2, 3)]);
    let acks = if acks[0].lost.bytes == 0 { fixture.loss_timer().unwrap() } else { acks };
    assert!(acks[0].begins_congestion_event && acks[0].in_recovery);
}

/// A gap on one path does not prolong the recovery of another.
#[test]
fn each_path_has_its_own_round_trips() {
    let mut fixture = Fixture::with_rack(0);
    for path in [1, 0, 0, 0, 0, 0] {
        fixture.push(FULL);
        fixture.packet(path);
    }
    fixture.wait(100);
    let (_, acks) = fixture.sack(0, &[(2, 5)]);
    assert!(acks[0].begins_congestion_event && acks[0].in_recovery);
    assert_eq!(fixture.tsns(0), [1]);
    fixture.go_on(1);
    fixture.wait(100);
    let (_, acks) = fixture.sack(0, &[(1, 6)]);
    assert!(!acks[0].in_recovery, "chunk 0 is missing, which went elsewhere");
}

/// A router refused the flight: that is no loss, and an earlier event is not undone with it.
#[test]
fn what_a_router_refused_opens_no_doubt() {
    let mut fixture = Fixture::with_rack(6);
    fixture.wait(5);
    let (_, acks) = fixture.sack(0, &[(1, 5)]);
    assert!(acks[0].begins_congestion_event);
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(100);
    let (_, acks) = fixture.sack(6, &[]);
    assert!(!acks[0].undo, "it was lost");
    fixture.go_on(4);
    let bytes = fixture.out.send_again(at(0));
    fixture.flight[0] -= bytes;
    assert_eq!(bytes, 4 * ROOM as u32);
    assert_eq!(fixture.tsns(0), [6, 7, 8, 9]);
    fixture.wait(100);
    let (_, acks) = fixture.sack_twice(10, &[], &[6, 7, 8, 9]);
    assert!(!acks[0].undo && !acks[0].in_recovery);
    // A later loss of that data is one.
    fixture.go_on(6);
    fixture.out.send_again(at(0));
    fixture.flight[0] = 0;
    assert_eq!(fixture.tsns(0), [10, 11, 12, 13, 14, 15]);
    fixture.wait(100);
    let (_, acks) = fixture.sack(10, &[(11, 15)]);
    assert_eq!((acks[0].lost.bytes, acks[0].begins_congestion_event), (ROOM as u32, true));
}

/// Refused data that arrives anyway refutes no loss that waits for its repair.
#[test]
fn arrival_does_not_refute_an_icmp_refusal() {
    let mut fixture = Fixture::with_rack(10);
    fixture.wait(5);
    let (_, acks) = fixture.sack(0, &[(1, 5)]);
    assert!(acks[0].begins_congestion_event);
    let bytes = fixture.out.send_again(at(0));
    fixture.flight[0] -= bytes;
    assert_eq!(bytes, 4 * ROOM as u32, "those after the last that has arrived");
    let (_, acks) = fixture.sack(0, &[(1, 6)]);
    assert!(!acks[0].undo, "0 is missing still");
}

/// Duplicates that arrive much later prove nothing: those of an earlier recovery do not undo a later one.
#[test]
fn undo_window_closes_when_proof_is_impossible() {
    let mut fixture = Fixture::with_rack(6);
    fixture.wait(5);
    fixture.sack(0, &[(1, 5)]);
    assert_eq!(fixture.tsns(0), [0]);
    for _ in 0..4 {
        fixture.go_on(1);
        fixture.wait(100);
        let next = fixture.out.next_tsn().0.wrapping_sub(INITIAL);
        fixture.sack(next, &[]);
    }
    let (_, acks) = fixture.sack_twice(10, &[], &[0]);
    assert!(!acks[0].undo);
}

/// Two events in successive round trips, both for late packets: undone together once everything is proved, and not
/// before.
#[test]
fn successive_undo_states_are_one() {
    let mut fixture = Fixture::with_rack(6);
    fixture.wait(5);
    let (_, acks) = fixture.sack(0, &[(1, 5)]);
    assert!(acks[0].begins_congestion_event && !acks[0].undo_continues);
    assert_eq!(fixture.tsns(0), [0]);
    fixture.go_on(6);
    fixture.wait(100);
    let (_, acks) = fixture.sack(6, &[(7, 11)]);
    assert!(acks[0].begins_congestion_event && acks[0].undo_continues);
    assert_eq!(fixture.tsns(0), [6]);
    let (_, acks) = fixture.sack_twice(6, &[(7, 11)], &[0]);
    assert!(!acks[0].undo, "6 may have been lost");
    fixture.wait(100);
    let (_, acks) = fixture.sack_twice(12, &[], &[6]);
    assert!(acks[0].undo);
}

/// A loss that a tail-loss probe repaired is certain: an older event does not undo it.
#[test]
fn a_loss_that_a_probe_repaired_is_certain() {
    let mut fixture = Fixture::with_rack(6);
    fixture.wait(5);
    fixture.sack(0, &[(1, 5)]);
    assert_eq!(fixture.tsns(0), [0]);
    fixture.go_on(2);
    let bytes = fixture.out.on_probe(Time::ZERO, at(0), false);
    fixture.flight[0] -= bytes;
    assert_eq!(fixture.tsns(0), [7]);
    fixture.go_on(1);
    fixture.wait(100);
    let (_, acks) = fixture.sack(9, &[]);
    assert!(acks[0].begins_congestion_event, "7 was sent after the event began");
    let (_, acks) = fixture.sack_twice(9, &[], &[0]);
    assert!(!acks[0].undo);
}

/// The network marked data, and some of that is lost (RFC 3168 section 6.1.2).
#[test]
fn losses_of_marked_chunks_are_one_event() {
    for by_time in [true, false] {
        let mut fixture = if by_time { Fixture::with_rack(6) } else { Fixture::with_outstanding(6) };
        fixture.wait(105);
        fixture.out.on_shrunk(at(0));
        for last in 1..=5 {
            let (_, acks) = fixture.sack(0, &[(1, last)]);
            assert!(!acks[0].begins_congestion_event, "by time: {by_time}");
            assert_eq!(acks[0].repairs, by_time && acks[0].lost.bytes > 0);
        }
        assert_eq!(fixture.tsns(0), [0]);
        fixture.wait(100);
        fixture.sack(6, &[]);
        fixture.go_on(6);
        fixture.wait(100);
        let events =
            (7..=11).filter(|last| fixture.sack(6, &[(7, *last)]).1[0].begins_congestion_event).count();
        assert_eq!(events, 1, "by time: {by_time}");
    }
}
