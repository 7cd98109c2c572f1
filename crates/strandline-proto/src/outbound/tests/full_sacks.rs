//! Full SACKs: chunks beyond the last block that fits may have arrived or not (RFC 9260 section 6.7).

use super::*;
use crate::outbound::recovery::gaps::Gaps;

/// Number of blocks of a full SACK.
const BLOCKS: u32 = 16;

/// Returns `BLOCKS` blocks of one chunk each, from TSN `first` on, with one missing before each.
fn every_second(first: u32) -> Vec<(u32, u32)> {
    (0..BLOCKS).map(|block| (first + 2 * block, first + 2 * block)).collect()
}

/// Chunks 0 to 59 are in flight, the even ones are lost, and a SACK reports 1 to 31. The chunks that it shows as lost
/// are retransmitted.
fn after_a_full_sack() -> Fixture {
    let mut fixture = Fixture::with_rack(60);
    fixture.wait(60);
    let (_, acks) = fixture.sack(0, &every_second(1));
    assert_eq!(acks[0].lost.bytes, BLOCKS * ROOM as u32);
    assert_eq!(fixture.tsns(0), (0..BLOCKS).map(|number| 2 * number).collect::<Vec<_>>());
    fixture
}

/// The retransmissions have arrived, later than all the others were sent: that says nothing about chunks that no SACK
/// had room for.
#[test]
fn unnamed_chunks_of_full_sacks_are_not_lost() {
    let mut fixture = after_a_full_sack();
    fixture.wait(100);
    let blocks: Vec<_> = [(3, 5)].into_iter().chain(every_second(7)).take(BLOCKS as usize).collect();
    assert_eq!(blocks.last(), Some(&(35, 35)));
    let (_, acks) = fixture.sack(2, &blocks);
    // The earlier retransmissions, and 32 and 34, which are reported by now.
    assert_eq!(acks[0].lost.bytes, 3 * ROOM as u32, "2, 32 and 34");
    // All the others, 36 to 59, have left the network. Retransmissions after 4, which has arrived, are in flight.
    assert_eq!(acks[0].lost.overdue_bytes, 24 * ROOM as u32);
    assert_eq!(fixture.flight[0], 13 * ROOM as u32, "6, 8, ... 30");
    assert_eq!(fixture.tsns(0), [2, 32, 34]);
    assert_eq!(fixture.out.loss_deadline(), Time::MAX);
    // With fewer blocks to report everything is known.
    fixture.wait(100);
    let (_, acks) = fixture.sack(58, &[(59, 59)]);
    assert_eq!((acks[0].lost.bytes, acks[0].lost.reported_bytes), (ROOM as u32, ROOM as u32));
    assert_eq!(fixture.tsns(0), [58]);
}

/// Chunks that left the network overdue are retransmitted after a time-out like all the others.
#[test]
fn unacknowledged_chunks_return_after_a_time_out() {
    let mut fixture = after_a_full_sack();
    fixture.wait(100);
    let blocks: Vec<_> = [(3, 5)].into_iter().chain(every_second(7)).take(BLOCKS as usize).collect();
    fixture.sack(2, &blocks);
    fixture.tsns(0);
    let in_flight = fixture.flight[0];
    assert_eq!(fixture.timeout(0), in_flight);
    assert_eq!(fixture.flight[0], 0);
    let again = fixture.tsns(0);
    assert_eq!(again.len(), 16 + 24, "2, 6, 8, ... 34 and all from 36 on: {again:?}");
    assert_eq!(again.last(), Some(&59));
}

/// SHUTDOWN acknowledges everything in flight: the chunks that no SACK had room for are still outstanding.
#[test]
fn what_is_unheard_is_still_waited_for() {
    let mut fixture = after_a_full_sack();
    fixture.wait(100);
    let blocks: Vec<_> = [(3, 5)].into_iter().chain(every_second(7)).take(BLOCKS as usize).collect();
    fixture.sack(2, &blocks);
    fixture.tsns(0);
    let mut acks = Acks::default();
    fixture.out.on_cumulative(fixture.now, Tsn(INITIAL) + 35, &mut acks);
    fixture.apply(&acks);
    assert_eq!((fixture.flight[0], fixture.out.is_empty()), (0, false));
    assert_eq!((fixture.out.has_overdue(at(0)), fixture.out.has_overdue(at(1))), (true, false));
    // The time-out retransmits them; then they are in flight.
    assert_eq!(fixture.timeout(0), 0);
    assert_eq!(fixture.tsns(0), (36..60).collect::<Vec<_>>());
    assert!(!fixture.out.has_overdue(at(0)));
    // Overdue chunks that a cumulative acknowledgement covers are no longer waited for.
    let mut fixture = after_a_full_sack();
    fixture.wait(100);
    fixture.sack(2, &blocks);
    let mut acks = Acks::default();
    fixture.out.on_cumulative(fixture.now, Tsn(INITIAL) + 59, &mut acks);
    fixture.apply(&acks);
    assert_eq!((fixture.out.is_empty(), fixture.out.has_overdue(at(0))), (true, false));
}

/// A tail-loss probe must be answered: it is the last chunk that a SACK can report.
#[test]
fn a_probe_is_of_what_they_can_name() {
    let mut fixture = after_a_full_sack();
    fixture.wait(250);
    let bytes = fixture.out.on_probe(Time::ZERO, at(0), false);
    fixture.flight[0] -= bytes;
    assert_eq!(fixture.tsns(0), [30]);
}

/// The peer's packets have less room, for example after a fall of the path MTU: this is noticed after a while, and a
/// full SACK is recognised again.
#[test]
fn full_is_what_the_latest_had_room_for() {
    let named = |blocks: u16| (1..=blocks).map(|number| GapBlock { start: 2 * number, end: 2 * number });
    let mut gaps = Gaps::default();
    gaps.replace(named(1700), 0, true, false);
    assert!(gaps.cut_at().is_some());
    gaps.replace(named(350), 0, true, false);
    assert_eq!(gaps.cut_at(), None, "there was room for more");
    for _ in 0..2048 {
        gaps.replace(named(15), 0, true, false);
    }
    gaps.replace(named(350), 0, true, false);
    assert_eq!(gaps.cut_at(), None, "those with few say nothing of that");
    for _ in 0..2048 {
        gaps.replace(named(350), 0, true, false);
    }
    assert!(gaps.cut_at().is_some());
}

/// Long packets report thousands of gaps, and each SACK adds what is new, whether it is long or short.
#[test]
fn long_sacks_add_their_news() {
    let named = |blocks: u16| (1..=blocks).map(|number| GapBlock { start: 2 * number, end: 2 * number });
    let mut gaps = Gaps::default();
    gaps.replace(named(1700), 0, true, false);
    for blocks in [1701, 2000] {
        gaps.replace(named(blocks), 0, true, true);
        assert_eq!(gaps.last(), Some(2 * usize::from(blocks) - 1));
    }
    gaps.replace(named(2001).skip(1999), 0, true, true);
    assert_eq!(gaps.last(), Some(2 * 2001 - 1));
}
