//! RFC 3708, with the duplicate TSNs of RFC 9260 section 3.3.4: spurious retransmissions, and what is undone.

use super::*;

/// Chunk 0 was only late: it was retransmitted, and the peer reports the second copy.
#[test]
fn a_recovery_for_a_late_packet_is_undone() {
    let mut fixture = Fixture::with_rack(6);
    fixture.wait(5);
    let (_, acks) = fixture.sack(0, &[(1, 5)]);
    assert!(acks[0].begins_congestion_event);
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(80);
    let (_, acks) = fixture.sack(6, &[]);
    assert!(!acks[0].undo, "the retransmission may have been needed");
    fixture.wait(20);
    let (_, acks) = fixture.sack_twice(6, &[], &[0]);
    assert!(acks[0].undo);
    let (_, acks) = fixture.sack_twice(6, &[], &[0]);
    assert!(!acks[0].undo, "once");
}

/// It arrived even before its retransmission.
#[test]
fn wrong_mark_is_undone_at_once() {
    let mut fixture = Fixture::with_rack(6);
    fixture.wait(5);
    fixture.sack(0, &[(1, 5)]);
    let (_, acks) = fixture.sack(6, &[]);
    assert!(acks[0].undo && !acks[0].in_recovery);
    assert!(!fixture.out.has_retransmissions());
}

/// One of two was really lost.
#[test]
fn one_real_loss_is_enough() {
    let mut fixture = Fixture::with_rack(8);
    fixture.wait(7);
    fixture.sack(0, &[(2, 7)]);
    assert_eq!(fixture.tsns(0), [0, 1]);
    fixture.wait(100);
    let (_, acks) = fixture.sack_twice(8, &[], &[1]);
    assert!(!acks[0].undo);
}

/// The network duplicated something that was never retransmitted.
#[test]
fn duplicates_that_are_not_ours_undo_nothing() {
    let mut fixture = Fixture::with_rack(6);
    fixture.wait(5);
    fixture.sack_twice(0, &[(1, 5)], &[3]);
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(100);
    let (_, acks) = fixture.sack_twice(6, &[], &[3, 4, 5]);
    assert!(!acks[0].undo);
}

/// RFC 8985 section 6.2 step 4: the reordering window grows by a quarter of the round trip.
#[test]
fn a_needless_retransmission_widens_the_reordering_window() {
    let mut fixture = Fixture::with_rack(6);
    fixture.wait(5);
    fixture.sack(0, &[(1, 5)]);
    fixture.packet(0);
    fixture.wait(100);
    fixture.sack_twice(6, &[], &[0]);
    for _ in 0..6 {
        fixture.push(FULL);
        fixture.packet(0);
    }
    let sent = fixture.now;
    fixture.wait(100);
    fixture.sack(6, &[(7, 11)]);
    fixture.loss_timer().unwrap();
    assert_eq!(fixture.now.since(sent), Duration::from_millis(150));
}

/// One of several paths timed out, and its flight was retransmitted on another one. That each chunk arrived twice
/// shows that the path was slow, not dead.
#[test]
fn time_out_that_moved_data_is_undone() {
    let mut fixture = Fixture::with_rack(5);
    fixture.wait(1000);
    assert_eq!(fixture.timeout(0), 5 * ROOM as u32);
    assert_eq!(fixture.tsns(1), [0, 1, 2, 3, 4]);
    fixture.wait(10);
    let (_, acks) = fixture.sack(5, &[]);
    assert!(acks.iter().all(|ack| !ack.undo), "that may be the second copies");
    fixture.wait(90);
    let (_, acks) = fixture.sack_twice(5, &[], &[0, 1, 2, 3]);
    assert!(acks.iter().all(|ack| !ack.undo), "one may have been lost");
    let (_, acks) = fixture.sack_twice(5, &[], &[4]);
    assert!(acks[0].undo && !acks[1].undo);
}

/// The chunk had been retransmitted before. The event is undone only if each of the copies is reported: with one
/// missing, one of the three was lost.
#[test]
fn copies_of_several_time_outs_must_be_reported() {
    for again in [false, true] {
        for (duplicates, is_undone) in [(&[0, 1][..], false), (&[0, 1, 1], false), (&[0, 1, 0, 1], again)] {
            let mut fixture = Fixture::with_rack(2);
            fixture.wait(1000);
            fixture.timeout(0);
            assert_eq!(fixture.tsns(0), [0, 1]);
            fixture.wait(2000);
            fixture.timeout_after(0, again);
            assert_eq!(fixture.tsns(0), [0, 1]);
            fixture.wait(100);
            let (_, acks) = fixture.sack_twice(2, &[], duplicates);
            assert_eq!(acks[0].undo, is_undone, "{again} {duplicates:?}");
        }
    }
}

/// A path fell silent, which two tail-loss probes detected: the highest chunk was sent three times. It was only late,
/// and the peer reports it twice.
#[test]
fn probes_before_the_time_out_are_copies_too() {
    for (duplicates, is_undone) in [(&[0, 1, 2][..], false), (&[0, 1, 2, 2], false), (&[0, 1, 2, 2, 2], true)]
    {
        let mut fixture = Fixture::with_rack(3);
        for _ in 0..2 {
            fixture.wait(100);
            let bytes = fixture.out.on_probe(Time::ZERO, at(0), false);
            fixture.flight[0] -= bytes;
            assert_eq!(fixture.tsns(0), [2], "the highest");
        }
        fixture.wait(100);
        fixture.timeout(0);
        assert_eq!(fixture.tsns(1), [0, 1, 2]);
        fixture.wait(10);
        let (_, acks) = fixture.sack_twice(3, &[], duplicates);
        assert_eq!(acks[0].undo, is_undone, "{duplicates:?}");
    }
}

/// A second path times out as well, with the data that the first one's time-out moved there: one more copy must be
/// reported to undo the first one's. Nothing is known about the second.
#[test]
fn copies_on_two_paths_must_be_reported_twice() {
    for (duplicates, is_undone) in [(&[0, 1][..], false), (&[0, 1, 0, 1], true)] {
        let mut fixture = Fixture::with_rack(2);
        fixture.wait(1000);
        fixture.timeout(0);
        assert_eq!(fixture.tsns(1), [0, 1]);
        fixture.wait(1000);
        fixture.timeout(1);
        assert_eq!(fixture.tsns(2), [0, 1]);
        fixture.wait(10);
        let (_, acks) = fixture.sack_twice(2, &[], duplicates);
        assert_eq!((acks[0].undo, acks[1].undo), (is_undone, false), "{duplicates:?}");
    }
}

/// A list of duplicates longer than a path watches is examined only up to that limit.
#[test]
fn of_many_duplicates_the_first_count() {
    for (others, undone) in [(255, true), (256, false)] {
        let mut fixture = Fixture::with_rack(6);
        fixture.wait(5);
        fixture.sack(0, &[(1, 5)]);
        assert_eq!(fixture.tsns(0), [0]);
        fixture.wait(90);
        let duplicates: Vec<_> = core::iter::repeat_n(3, others).chain([0]).collect();
        let (_, acks) = fixture.sack_twice(6, &[], &duplicates);
        assert_eq!(acks[0].undo, undone, "{others}");
    }
}
