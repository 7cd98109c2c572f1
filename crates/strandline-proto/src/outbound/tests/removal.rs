//! Chunks of a path that is removed.

use super::*;
use crate::outbound::partial::{Skipping, abandon_due, forward_len, write_forward};
use crate::reliability::Reliability;

fn removed(fixture: &mut Fixture, from: u8, to: u8) {
    fixture.out.move_path(at(from), at(to), Some(Duration::from_millis(100)));
    fixture.flight[usize::from(from)] = 0;
    fixture.check();
}

/// Returns a fixture with TSNs 0 to 2 on path 0 and 3 to 5 on path 1.
fn two_paths(by_time: bool) -> Fixture {
    let mut fixture = if by_time { Fixture::with_rack(3) } else { Fixture::with_outstanding(3) };
    for _ in 0..3 {
        fixture.push(FULL);
        assert_eq!(fixture.packet(1).len(), 1);
    }
    fixture
}

#[test]
fn chunks_in_flight_are_retransmitted_on_another_path() {
    for by_time in [false, true] {
        let mut fixture = two_paths(by_time);
        removed(&mut fixture, 0, 1);
        assert_eq!((fixture.out.flight_of(at(0)), fixture.out.flight_of(at(1))), (0, 3 * ROOM as u32));
        assert_eq!(fixture.out.path_of(Tsn(INITIAL)), Some(at(1)));
        let again = fixture.out.retransmission().unwrap();
        assert_eq!((again.last_path, again.fast, again.repeated, again.probe), (at(1), false, false, false));
        assert_eq!(fixture.tsns(1), [0, 1, 2]);
        fixture.wait(50);
        let (outcome, acks) = fixture.sack(6, &[]);
        assert!(
            matches!(outcome, SackOutcome::Applied { all_acked: true, newly_acked: true, .. }),
            "{outcome:?}"
        );
        assert!(acks[0].is_nothing());
        assert_eq!((acks[1].acked.flight_drop, acks[1].acked.bytes), (6 * ROOM as u32, 6 * ROOM as u32));
    }
}

/// They have arrived after all: that shows nothing about the path which they were assigned to.
#[test]
fn late_acknowledgement_shows_nothing_about_another_path() {
    for by_time in [false, true] {
        for by_gap in [false, true] {
            let mut fixture = two_paths(by_time);
            let (first, removed_path, other) = if by_gap { (0, 1, 0) } else { (3, 0, 1) };
            removed(&mut fixture, removed_path, other);
            let (outcome, acks) = if by_gap { fixture.sack(0, &[(3, 5)]) } else { fixture.sack(3, &[]) };
            assert!(matches!(outcome, SackOutcome::Applied { newly_acked: true, .. }), "{outcome:?}");
            for ack in &acks {
                let nothing = PathAck { in_recovery: ack.in_recovery, ..PathAck::default() };
                assert_eq!(*ack, nothing, "by time {by_time}, by gap {by_gap}");
            }
            assert_eq!(fixture.out.loss_deadline(), Time::MAX, "from TSN {first} on");
            assert!(!fixture.out.has_retransmissions());
        }
    }
}

/// The peer revokes what it acknowledged on the removed path: it counts as flight of the other one.
#[test]
fn revoked_chunks_belong_to_the_other_path() {
    for by_time in [false, true] {
        let mut fixture = two_paths(by_time);
        fixture.sack(0, &[(3, 5)]);
        removed(&mut fixture, 1, 0);
        let (_, acks) = fixture.sack(1, &[(3, 4)]);
        assert_eq!((acks[0].lost.reneged_bytes, acks[1].is_nothing()), (ROOM as u32, true));
        let (outcome, _) = fixture.sack(6, &[]);
        assert!(matches!(outcome, SackOutcome::Applied { all_acked: true, .. }), "{outcome:?}");
        assert_eq!(fixture.flight[..2], [0, 0]);
    }
}

/// A path that is added later may get the index of a removed one, whose reordering and round trips are forgotten.
#[test]
fn index_of_a_removed_path_is_reusable() {
    let mut fixture = two_paths(true);
    fixture.wait(1000);
    fixture.timeout(0);
    assert_eq!(fixture.tsns(1), [0, 1, 2]);
    removed(&mut fixture, 1, 2);
    fixture.push(FULL);
    assert_eq!(fixture.tsns(2)[..6], [0, 1, 2, 3, 4, 5]);
    fixture.push(FULL);
    assert_eq!(fixture.tsns(1), [7]);
    fixture.wait(10);
    let (_, acks) = fixture.sack(0, &[(7, 7)]);
    assert_eq!((acks[1].acked.bytes, acks[2].lost.bytes), (ROOM as u32, 0));
    fixture.wait(10);
    let (outcome, _) = fixture.sack(8, &[]);
    assert!(matches!(outcome, SackOutcome::Applied { all_acked: true, .. }), "{outcome:?}");
}

/// A FORWARD TSN was sent on the removed path: its acknowledgement shows nothing about a path that gets the index.
#[test]
fn forward_tsn_of_a_removed_path_is_forgotten() {
    let mut fixture = Fixture::new();
    let info = SendInfo::default().reliability(Reliability::lifetime(Duration::from_millis(10)));
    let room = fixture.config.send_buffer_start();
    fixture.out.push(Time::ZERO, info, &mut message(100), &fixture.config, |_| room).unwrap();
    assert_eq!(fixture.tsns(1), [0]);
    fixture.wait(1000);
    fixture.timeout(1);
    assert!(abandon_due(&mut fixture.out, fixture.now, Skipping::Agreed).is_some());
    let mut buffer = [0; 100];
    let mut packet = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    assert!(write_forward(&mut fixture.out, (fixture.now, at(1)), &mut packet));
    assert!(forward_len(&fixture.out, at(1)) > 0);
    removed(&mut fixture, 1, 0);
    assert_eq!(forward_len(&fixture.out, at(1)), 0);
    let (outcome, acks) = fixture.sack(1, &[]);
    assert!(matches!(outcome, SackOutcome::Applied { all_acked: true, .. }), "{outcome:?}");
    assert!(!acks[1].acked.skipped);
}

#[test]
fn nothing_outstanding_is_nothing_to_move() {
    let mut fixture = Fixture::new();
    removed(&mut fixture, 0, 1);
    fixture.push(10);
    assert_eq!(fixture.tsns(1), [0]);
}

/// The answers to what was in flight on the removed path arrive soon after the retransmission on another path, whose
/// round-trip time is unknown: they make nothing lost that was just retransmitted there.
#[test]
fn answers_to_a_removed_path_make_nothing_lost() {
    for measured in [false, true] {
        let mut fixture = Fixture::with_rack(2);
        if measured {
            fixture.wait(100);
            fixture.sack(2, &[]);
        }
        for _ in 0..4 {
            fixture.push(FULL);
            assert_eq!(fixture.packet(0).len(), 1);
        }
        removed(&mut fixture, 0, 1);
        assert_eq!(fixture.tsns(1).last(), Some(&5));
        fixture.wait(10);
        fixture.sack(if measured { 2 } else { 0 }, &[(5, 5)]);
        assert!(!fixture.out.has_retransmissions(), "with a measurement: {measured}");
        assert_eq!(fixture.out.loss_deadline(), Time::MAX);
    }
}

/// What was sent on the removed path is no gap in the other path, and what arrived of it is not beyond one there: the
/// reordering window of the other path stays open.
#[test]
fn removed_path_ends_no_reordering_window() {
    let mut fixture = Fixture::with_rack(1);
    fixture.wait(100);
    fixture.sack(1, &[]);
    for path in [1, 0, 0, 1, 1] {
        fixture.push(FULL);
        assert_eq!(fixture.packet(path).len(), 1);
    }
    removed(&mut fixture, 1, 0);
    fixture.wait(100);
    let (_, acks) = fixture.sack(1, &[(3, 5)]);
    assert_eq!(acks[0].lost.bytes, 0);
    assert_eq!(fixture.out.loss_deadline(), fixture.now + Duration::from_millis(25));
}
