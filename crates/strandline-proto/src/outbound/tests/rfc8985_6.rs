//! RFC 8985 section 6: loss detection by time (RACK), on TSNs.

use super::*;

const LOST: u32 = ROOM as u32;

/// Step 5: what was sent before something that has arrived, and longer ago than a round trip, is lost. Three packets
/// beyond a gap rule out reordering (step 4).
#[test]
fn three_packets_beyond_a_gap_show_loss() {
    let mut fixture = Fixture::with_rack(6);
    for last in [1, 2] {
        let (_, acks) = fixture.sack(0, &[(1, last)]);
        assert_eq!(acks[0].lost.bytes, 0);
        fixture.wait(1);
    }
    let (_, acks) = fixture.sack(0, &[(1, 3)]);
    assert_eq!(
        (acks[0].lost.bytes, acks[0].begins_congestion_event, acks[0].in_recovery),
        (LOST, true, true)
    );
    assert_eq!(fixture.tsns(0), [0]);
    assert!(fixture.out.in_fast_recovery());
}

/// Packets beyond one gap say nothing of the next one (step 4): that waits for reordering again.
#[test]
fn each_gap_counts_its_own_packets() {
    let mut fixture = Fixture::with_rack(3);
    for last in [1, 2] {
        fixture.wait(1);
        fixture.sack(0, &[(1, last)]);
    }
    fixture.loss_timer().unwrap();
    assert_eq!(fixture.tsns(0), [0]);
    for tsn in [3, 4] {
        fixture.push(FULL);
        assert_eq!(fixture.tsns(0), [tsn]);
    }
    fixture.wait(100);
    let (_, acks) = fixture.sack(3, &[(4, 4)]);
    assert_eq!(acks[0].lost.bytes, 0, "one packet beyond the second gap");
    let acks = fixture.loss_timer().unwrap();
    assert_eq!(acks[0].lost.bytes, LOST);
    assert_eq!(fixture.tsns(0), [3]);
}

/// Fewer than three: a quarter of the round trip is waited for a packet that may only be late.
#[test]
fn one_packet_beyond_a_gap_waits() {
    let mut fixture = Fixture::with_rack(2);
    fixture.wait(1);
    let before = fixture.now;
    let (_, acks) = fixture.sack(0, &[(1, 1)]);
    assert_eq!(acks[0].lost.bytes, 0);
    let acks = fixture.loss_timer().unwrap();
    assert_eq!((acks[0].lost.bytes, acks[0].begins_congestion_event), (LOST, true));
    assert_eq!(fixture.now.since(before), Duration::from_millis(24), "sent 101 ms ago, 125 allowed");
    assert!(fixture.loss_timer().is_none());
}

/// If it arrives in time there was no loss, and nothing is waited for any more.
#[test]
fn a_late_packet_is_not_lost() {
    let mut fixture = Fixture::with_rack(3);
    fixture.sack(0, &[(1, 1)]);
    fixture.wait(5);
    let (outcome, acks) = fixture.sack(2, &[]);
    assert!(applied(outcome).newly_acked);
    assert_eq!((acks[0].lost.bytes, acks[0].in_recovery), (0, false));
    assert_eq!(fixture.out.loss_deadline(), Time::MAX);
}

/// Step 3: a path on which reordering was seen gets its window even after three packets.
#[test]
fn reordering_once_seen_is_reckoned_with() {
    let mut fixture = Fixture::with_rack(12);
    fixture.sack(0, &[(1, 1)]);
    fixture.sack(2, &[]);
    fixture.wait(5);
    let (_, acks) = fixture.sack(2, &[(3, 7)]);
    assert_eq!(acks[0].lost.bytes, 0);
    assert_ne!(fixture.out.loss_deadline(), Time::MAX);
}

/// Several are lost at once, whatever their number, in one event with one reduction of the window.
#[test]
fn all_that_is_late_is_lost_together() {
    let mut fixture = Fixture::with_rack(12);
    fixture.wait(11);
    let (_, acks) = fixture.sack(0, &[(8, 11)]);
    assert_eq!((acks[0].lost.bytes, acks[0].begins_congestion_event), (8 * LOST, true));
    assert_eq!(fixture.tsns(0), [0, 1, 2, 3, 4, 5, 6, 7]);
    fixture.wait(100);
    let (_, acks) = fixture.sack(5, &[(8, 11)]);
    // Data sent after it began has arrived.
    assert!(!acks[0].begins_congestion_event && !acks[0].in_recovery && !fixture.out.in_fast_recovery());
    let (_, acks) = fixture.sack(12, &[]);
    assert!(!acks[0].begins_congestion_event);
}

/// RFC 9260 section 7.2.4 rule 5 leaves this to T3-rtx: a lost retransmission.
#[test]
fn lost_retransmission_is_found_without_time_out() {
    let mut fixture = Fixture::with_rack(6);
    fixture.wait(5);
    fixture.sack(0, &[(1, 5)]);
    assert_eq!(fixture.tsns(0), [0]);
    for _ in 0..3 {
        fixture.wait(1);
        fixture.push(FULL);
        fixture.packet(0);
    }
    // An answer to what was sent after it, and none to itself.
    fixture.wait(100);
    let (_, acks) = fixture.sack(0, &[(1, 6)]);
    assert_eq!((acks[0].lost.bytes, acks[0].begins_congestion_event), (LOST, true), "that is another event");
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(100);
    let (outcome, _) = fixture.sack(9, &[]);
    assert!(applied(outcome).all_acked);
}

/// Step 2: what arrives sooner than any answer was for an earlier transmission, and says nothing about those between.
#[test]
fn too_early_answer_is_for_the_original() {
    let mut fixture = Fixture::with_rack(6);
    fixture.wait(5);
    fixture.sack(0, &[(1, 3)]);
    assert_eq!(fixture.tsns(0), [0], "4 and 5 are not late");
    fixture.wait(1);
    let (_, acks) = fixture.sack(4, &[]);
    assert_eq!(acks[0].lost.bytes, 0);
    assert!(!fixture.out.has_retransmissions());
}

/// Each path is judged by its own data.
#[test]
fn paths_are_judged_apart() {
    let mut fixture = Fixture::with_rack(0);
    for path in [1, 0, 0, 0, 0] {
        fixture.push(FULL);
        fixture.packet(path);
    }
    fixture.wait(100);
    let (_, acks) = fixture.sack(0, &[(1, 4)]);
    assert_eq!((acks[0].lost.bytes, acks[1].lost.bytes), (0, 0), "nothing arrived on the second path");
    assert!(fixture.loss_timer().is_none());
    fixture.timeout(1);
    assert_eq!(fixture.tsns(1), [0]);
}

/// Section 5: limited transmit (RFC 3042) needs no rule, because data in gap blocks has left the flight.
#[test]
fn new_data_goes_during_a_suspected_gap() {
    let mut fixture = Fixture::with_rack(4);
    fixture.push(FULL);
    let before = fixture.flight[0];
    fixture.sack(0, &[(1, 1)]);
    assert_eq!(fixture.flight[0], before - LOST);
    assert_eq!(fixture.tsns(0), [4]);
}

/// Revoked by the peer: in flight again, and overdue.
#[test]
fn what_the_peer_takes_back_is_judged_again() {
    let mut fixture = Fixture::with_rack(8);
    fixture.wait(7);
    fixture.sack(0, &[(1, 6)]);
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(80);
    let (_, acks) = fixture.sack(1, &[(3, 7)]);
    assert_eq!((acks[0].lost.reneged_bytes, acks[0].lost.bytes), (2 * LOST, 2 * LOST));
    assert_eq!(fixture.tsns(0), [1, 2]);
}

/// Steady loss allocates nothing once the log has its size.
#[test]
fn steady_loss_allocates_nothing() {
    let mut fixture = Fixture::with_rack(6);
    let mut next = 0;
    let mut rounds = |fixture: &mut Fixture, count: u32| {
        for _ in 0..count {
            fixture.wait(100);
            fixture.sack(next, &[(next + 1, next + 5)]);
            assert_eq!(fixture.tsns(0), [next]);
            fixture.wait(100);
            next += 6;
            fixture.sack(next, &[]);
            for _ in 0..6 {
                fixture.push(FULL);
                fixture.packet(0);
            }
        }
    };
    rounds(&mut fixture, 50);
    let heap = fixture.out.heap_bytes();
    rounds(&mut fixture, 500);
    assert_eq!(fixture.out.heap_bytes(), heap);
}

/// Data of another path overtakes without any reordering, and no path gets a window for it.
#[test]
fn a_faster_path_is_no_reordering() {
    let mut fixture = Fixture::with_rack(3);
    for _ in 0..3 {
        fixture.push(FULL);
        assert_eq!(fixture.packet(1).len(), 1);
    }
    fixture.wait(10);
    fixture.sack(0, &[(3, 5)]);
    fixture.wait(90);
    fixture.sack(6, &[]);
    for _ in 0..5 {
        fixture.push(FULL);
        fixture.packet(0);
    }
    fixture.wait(100);
    let (_, acks) = fixture.sack(6, &[(7, 10)]);
    assert_eq!(acks[0].lost.bytes, ROOM as u32, "three packets beyond a gap, and nothing was ever reordered");
}

/// One packet in the middle of a burst is lost, and the last one. When the first is repaired no gap shows the other,
/// but later data has arrived.
#[test]
fn burst_end_is_lost_when_repairs_arrive() {
    let mut fixture = Fixture::with_rack(6);
    fixture.wait(100);
    fixture.sack(0, &[(1, 4)]);
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(100);
    let (_, acks) = fixture.sack(5, &[]);
    assert_eq!(acks[0].lost.bytes, ROOM as u32);
    assert_eq!(fixture.tsns(0), [5]);
}

/// A SACK that a later one has overtaken reports less. Nothing is in flight again, or lost.
#[test]
fn overtaken_sack_marks_nothing_lost() {
    let mut fixture = Fixture::with_rack(12);
    fixture.wait(11);
    let (_, acks) = fixture.sack(0, &[(1, 9)]);
    assert_eq!(acks[0].lost.bytes, LOST);
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(30);
    let (_, acks) = fixture.sack(0, &[(1, 4)]);
    assert_eq!((acks[0].lost.bytes, acks[0].lost.reneged_bytes), (0, 0));
    fixture.wait(30);
    let (_, acks) = fixture.sack(0, &[(1, 10)]);
    assert_eq!((acks[0].lost.bytes, acks[0].acked.flight_drop), (0, LOST));
    // Another one, and nothing after it: no timer waits for what it omits.
    let (_, acks) = fixture.sack(0, &[(1, 7)]);
    assert_eq!((acks[0].lost.bytes, acks[0].lost.reneged_bytes), (0, 0));
    fixture.wait(1000);
    assert!(fixture.loss_timer().is_none());
}

/// Step 4 counts data of the same path: late data of another one makes no gap here, and removes no reordering window.
#[test]
fn gaps_that_another_path_makes_do_not_count() {
    let mut fixture = Fixture::with_rack(0);
    let send = |fixture: &mut Fixture, path, packets| {
        for _ in 0..packets {
            fixture.wait(1);
            fixture.push(FULL);
            assert_eq!(fixture.packet(path).len(), 1);
        }
    };
    send(&mut fixture, 1, 1);
    send(&mut fixture, 0, 8);
    fixture.wait(98);
    let (_, acks) = fixture.sack(0, &[(1, 4)]);
    assert_eq!((acks[0].lost.bytes, acks[1].lost.bytes), (0, 0));
    assert_eq!(fixture.out.loss_deadline(), Time::MAX, "nothing is late on either path");
    fixture.wait(2);
    let (_, acks) = fixture.sack(0, &[(1, 4), (6, 6)]);
    assert_eq!(acks[0].lost.bytes, 0, "one packet behind a gap");
    assert!(fixture.out.loss_deadline() > fixture.now);
    let (_, acks) = fixture.sack(0, &[(1, 4), (6, 8)]);
    assert_eq!((acks[0].lost.bytes, acks[1].lost.bytes), (LOST, 0), "three");
}

/// Three SACKs instead of packets report something beyond a gap.
#[test]
fn sacks_behind_another_paths_gap_do_not_count() {
    let mut fixture = Fixture::with_rack(0);
    let send = |fixture: &mut Fixture, path, len| {
        fixture.wait(1);
        fixture.push(len);
        assert_eq!(fixture.packet(path).len(), 1);
    };
    send(&mut fixture, 1, 10);
    for _ in 0..8 {
        send(&mut fixture, 0, 10);
    }
    fixture.wait(98);
    for last in 1..=4 {
        fixture.sack(0, &[(1, last)]);
    }
    let (_, acks) = fixture.sack(0, &[(1, 4), (6, 6)]);
    assert_eq!(acks[0].lost.bytes, 0);
    for (last, lost) in [(7, 0), (8, 28)] {
        let (_, acks) = fixture.sack(0, &[(1, 4), (6, last)]);
        assert_eq!(acks[0].lost.bytes, lost, "{last}");
    }
}

/// What was acknowledged on a path before a chunk of another one was retransmitted there shows nothing about
/// later gaps.
#[test]
fn chunks_that_change_path_make_no_gap() {
    let mut fixture = Fixture::with_rack(0);
    for path in [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0] {
        fixture.wait(1);
        fixture.push(FULL);
        assert_eq!(fixture.packet(path).len(), 1);
    }
    fixture.wait(96);
    let (_, acks) = fixture.sack(0, &[(1, 7)]);
    assert_eq!((acks[0].lost.bytes, acks[1].lost.bytes), (0, LOST));
    assert_eq!(fixture.tsns(0), [0], "on the other path");
    fixture.wait(4);
    let (_, acks) = fixture.sack(0, &[(1, 7), (9, 9)]);
    assert_eq!(acks[0].lost.bytes, 0, "one packet behind a gap");
    let (_, acks) = fixture.sack(0, &[(1, 7), (9, 11)]);
    assert_eq!(acks[0].lost.bytes, LOST, "three");
}

/// A full SACK says nothing about chunks beyond its last block. Chunks reported later may have arrived long ago: they
/// measure no round-trip time that would delay loss detection.
#[test]
fn truncated_sacks_do_not_lengthen_the_rtt() {
    for (blocks, measures) in [(16, false), (15, true)] {
        let mut fixture = Fixture::with_rack(60);
        let gaps: Vec<_> = (0..blocks).map(|block| (2 * block + 1, 2 * block + 1)).collect();
        fixture.sack(0, &gaps);
        fixture.wait(500);
        fixture.sack(60, &[]);
        let rack = fixture.out.busy.as_ref().unwrap().sent.rack.as_ref().unwrap();
        assert_eq!(rack.round_trip_ns() > 130_000_000, measures, "{blocks}: {}", rack.round_trip_ns());
    }
}

/// The delay of a full SACK is reported with its time, for SRTT and the RTO; chunks that could be reported are
/// preferred.
#[test]
fn truncation_is_reported_to_the_path() {
    for (blocks, late) in [(16, true), (15, false)] {
        for repaired in [true, false] {
            let mut fixture = Fixture::with_rack(60);
            let gaps: Vec<_> = (0..blocks).map(|block| (2 * block + 1, 2 * block + 1)).collect();
            let (_, acks) = fixture.sack(0, &gaps);
            assert!(acks[0].rtt.sent_at.is_some() && !acks[0].rtt.late);
            if repaired {
                assert!(fixture.tsns(0).len() >= blocks as usize - 1);
            }
            fixture.wait(500);
            let (_, acks) = fixture.sack(60, &[]);
            // A gap below the last block that was not retransmitted was filled after that SACK.
            assert_eq!((acks[0].rtt.sent_at.is_some(), acks[0].rtt.late), (true, late && repaired));
        }
    }
}

/// RFC 9260 section 6.3.1 C5: a retransmission is no measurement when a gap block reports it either.
#[test]
fn retransmissions_measure_nothing_behind_a_gap() {
    let mut fixture = Fixture::with_rack(6);
    let (_, acks) = fixture.sack(0, &[(1, 1), (3, 5)]);
    assert_eq!(acks[0].lost.bytes, 2 * LOST);
    assert_eq!(fixture.tsns(0), [0, 2]);
    fixture.wait(100);
    let (_, acks) = fixture.sack(0, &[(1, 5)]);
    assert_eq!((acks[0].acked.bytes, acks[0].rtt.sent_at), (LOST, None));
}

/// Step 2: an answer that comes sooner than any can arrive is for an earlier transmission. On a path without a
/// measurement the fastest other one decides that: otherwise the answer would make everything lost that was sent there.
#[test]
fn unmeasured_path_is_not_much_faster() {
    for (ms, lost) in [(1, 0), (49, 0), (51, LOST)] {
        let mut fixture = Fixture::with_rack(8);
        fixture.wait(7);
        fixture.sack(0, &[(2, 7)]);
        assert_eq!(fixture.tsns(1), [0, 1]);
        fixture.wait(ms);
        let (_, acks) = fixture.sack(0, &[(1, 7)]);
        assert_eq!((acks[0].lost.bytes, acks[1].lost.bytes), (0, lost), "{ms}");
    }
}

/// The minimum from before an idle period decides until there is a measurement again.
#[test]
fn min_rtt_before_idle_judges_answers() {
    for (ms, lost) in [(1, 0), (51, LOST)] {
        let mut fixture = Fixture::with_rack(0);
        fixture.out.release_idle();
        for _ in 0..2 {
            fixture.push(FULL);
            assert_eq!(fixture.packet(0).len(), 1);
        }
        fixture.flight[0] -= fixture.out.send_again(at(0));
        assert_eq!(fixture.tsns(0), [0, 1]);
        fixture.wait(ms);
        let (_, acks) = fixture.sack(0, &[(1, 1)]);
        assert_eq!(acks[0].lost.bytes, lost, "{ms}");
    }
}
