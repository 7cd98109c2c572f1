//! SACKs that no honest peer sends. None may panic, loop, corrupt the accounts or acknowledge chunks that were never
//! sent.

use super::*;
use crate::outbound::partial::{Skipping, abandon_due};
use crate::reliability::Reliability;

fn block(start: u16, end: u16) -> GapBlock {
    GapBlock { start, end }
}

#[test]
fn sack_for_unsent_data_is_a_violation() {
    let mut fixture = Fixture::with_outstanding(5);
    for cumulative in [5, 6, 1000, (1 << 31) - 2, (1 << 31) - 1] {
        let (outcome, acks) = fixture.raw_sack(Tsn(INITIAL) + cumulative, &[]);
        assert!(matches!(outcome, SackOutcome::Violation(_)), "{cumulative}: {outcome:?}");
        assert!(acks.iter().all(PathAck::is_nothing));
    }
    for blocks in [&[block(2, 6)][..], &[block(6, 6)], &[block(1, 1), block(3, 65_535)]] {
        let (outcome, _) = fixture.raw_sack(Tsn(INITIAL - 1), blocks);
        assert!(matches!(outcome, SackOutcome::Violation(_)), "{blocks:?}: {outcome:?}");
    }
    // The cumulative acknowledgement is possible, the block counted from it is not.
    assert!(matches!(fixture.raw_sack(Tsn(INITIAL) + 2, &[block(2, 3)]).0, SackOutcome::Violation(_)));
    assert_eq!(fixture.out.unacknowledged_bytes(), 5 * FULL as u32);
}

#[test]
fn far_behind_the_ack_point_is_old() {
    let mut fixture = Fixture::with_outstanding(5);
    for behind in [2, 1000, 1 << 30, (1 << 31) - 1] {
        let (outcome, _) = fixture.raw_sack(Tsn(INITIAL.wrapping_sub(behind)), &[block(1, 65_535)]);
        assert_eq!(outcome, SackOutcome::Ignored, "{behind}");
    }
}

/// Only the set of TSNs counts, however it is written.
#[test]
fn gap_blocks_in_any_order_form_a_union() {
    let spellings: [&[GapBlock]; 5] = [
        &[block(3, 5), block(8, 9)],
        &[block(8, 9), block(3, 5)],
        &[block(3, 4), block(4, 5), block(3, 3), block(9, 9), block(8, 8)],
        &[block(8, 9), block(8, 9), block(5, 5), block(3, 5), block(4, 4)],
        &[block(9, 2), block(3, 5), block(8, 9), block(65_535, 1)],
    ];
    for blocks in spellings {
        let mut fixture = Fixture::with_outstanding(12);
        let (outcome, acks) = fixture.raw_sack(Tsn(INITIAL - 1), blocks);
        assert!(applied(outcome).newly_acked);
        assert_eq!(acks[0].acked.chunks, 5, "{blocks:?}");
        let busy = fixture.out.busy.as_ref().unwrap();
        let runs: Vec<_> = busy.sent.gaps.runs().iter().map(|run| (run.start, run.end)).collect();
        assert_eq!(runs, [(2, 4), (7, 8)], "{blocks:?}");
    }
}

#[test]
fn inverted_and_zero_blocks_name_nothing() {
    let mut fixture = Fixture::with_outstanding(5);
    let blocks = [block(0, 0), block(5, 2), block(65_535, 0), block(3, 2)];
    let (outcome, acks) = fixture.raw_sack(Tsn(INITIAL - 1), &blocks);
    assert!(!applied(outcome).newly_acked);
    assert!(acks.iter().all(PathAck::is_nothing));
    let (_, acks) = fixture.raw_sack(Tsn(INITIAL - 1), &[block(0, 2)]);
    assert_eq!(acks[0].acked.chunks, 2, "offset 0 is the cumulative acknowledgement itself");
}

/// A block directly after the cumulative TSN should have been part of it; all chunks may be reported that way.
#[test]
fn gap_acknowledged_chunks_stay_until_cumulative() {
    let mut fixture = Fixture::with_outstanding(5);
    let (outcome, acks) = fixture.raw_sack(Tsn(INITIAL - 1), &[block(1, 5)]);
    assert!(!applied(outcome).all_acked);
    assert_eq!((acks[0].acked.chunks, fixture.flight[0]), (5, 0));
    assert!(!fixture.out.is_empty());
    fixture.raw_sack(Tsn(INITIAL - 1), &[]);
    assert_eq!(fixture.flight[0], 5 * ROOM as u32);
    fixture.sack(5, &[]);
    assert!(fixture.out.is_empty());
}

/// As many blocks as a packet can hold, each reporting everything: the work is that of the union, not of the sum.
#[test]
fn thousands_of_blocks_that_name_everything() {
    let mut fixture = Fixture::new();
    fixture.config.send_messages_max = 65_536;
    for _ in 0..65_535 {
        fixture.push(1);
    }
    while fixture.new_chunk(0, ROOM).is_some() {}
    let everything = vec![block(1, 65_535); 16_000];
    let odd: Vec<_> = (0..16_000).map(|i| block(2 * i + 2, 2 * i + 2)).rev().collect();
    for round in 0..5 {
        let (_, acks) = fixture.raw_sack(Tsn(INITIAL - 1), &everything);
        assert_eq!(fixture.flight[0], 0);
        assert_eq!(acks[0].acked.chunks > 0, round == 0);
        fixture.raw_sack(Tsn(INITIAL - 1), &odd);
        // What the second SACK does not report is revoked.
        assert_eq!(fixture.flight[0], (65_535 - 16_000) * 20);
    }
    fixture.raw_sack(Tsn(INITIAL - 1), &everything);
    fixture.sack(65_535, &[]);
    assert!(fixture.out.is_empty());
    fixture.raw_sack(Tsn(INITIAL) + 65_534, &[]);
    assert_eq!(fixture.out.heap().gaps, 0, "room for thousands of blocks is not kept");
}

/// Each SACK or SHUTDOWN could change the state of everything outstanding, for ever: by a higher Cumulative TSN Ack, or
/// by reporting the chunk after it in a block.
#[test]
fn endless_reneging_is_stopped() {
    const CHUNKS: u32 = 1000;
    for (advances, block_start, by_shutdown) in
        [(true, 2, false), (false, 1, false), (true, 2, true), (false, 1, true)]
    {
        let mut fixture = Fixture::new();
        fixture.config.send_messages_max = 65_536;
        for _ in 0..2 * CHUNKS {
            fixture.push(1);
        }
        while fixture.new_chunk(0, ROOM).is_some() {}
        let say = |fixture: &mut Fixture, next: u32, blocks: &[GapBlock]| {
            let bytes = encode_sack(Tsn(INITIAL - 1) + next, fixture.a_rwnd, blocks, &[]);
            fixture.out.on_sack(fixture.now, &decode_sack(&bytes), &mut Acks::default())
        };
        let take_back = |fixture: &mut Fixture, next: u32| {
            if !by_shutdown {
                return say(fixture, next, &[]);
            }
            let cumulative = Tsn(INITIAL - 1) + next;
            fixture.out.on_cumulative(fixture.now, cumulative, &mut Acks::default())
        };
        let (mut taken_back, mut next) = (0, 0);
        while !matches!(take_back(&mut fixture, next), SackOutcome::Violation("peer reneges too often")) {
            taken_back += CHUNKS;
            assert!(taken_back < 300_000);
            applied(say(&mut fixture, next, &[block(block_start, CHUNKS as u16 + 1)]));
            next += u32::from(advances);
        }
        assert!(taken_back > 200_000, "a peer that is short of memory takes some back: {taken_back}");
    }
}

/// Chunks that were abandoned stay so, but each SACK that reports them or omits them again looks at all of them.
#[test]
fn endless_reports_of_abandoned_chunks_are_stopped() {
    const CHUNKS: u16 = 1000;
    let mut fixture = Fixture::new();
    fixture.config.send_messages_max = 65_536;
    fixture.push(1);
    let info = SendInfo::default().reliability(Reliability::lifetime(Duration::from_millis(10)));
    for _ in 0..CHUNKS {
        let room = fixture.config.send_buffer_start();
        fixture.out.push(Time::ZERO, info, &mut message(1), &fixture.config, |_| room).unwrap();
    }
    while fixture.new_chunk(0, ROOM).is_some() {}
    fixture.wait(1000);
    fixture.timeout(0);
    assert!(abandon_due(&mut fixture.out, fixture.now, Skipping::Agreed).is_some());
    let state = |fixture: &Fixture, index| {
        fixture.out.busy.as_ref().unwrap().sent.outstanding.get(index).map(Record::state)
    };
    assert_eq!([0, 1000].map(|index| state(&fixture, index)), [Some(State::Marked), Some(State::Abandoned)]);
    let mut rounds = 0;
    loop {
        let named = [block(1, CHUNKS + 1)];
        let outcomes = [&named[..], &[]].map(|blocks| {
            let bytes = encode_sack(Tsn(INITIAL - 1), fixture.a_rwnd, blocks, &[]);
            fixture.out.on_sack(fixture.now, &decode_sack(&bytes), &mut Acks::default())
        });
        if outcomes.iter().any(|outcome| matches!(outcome, SackOutcome::Violation(_))) {
            break;
        }
        rounds += 1;
        assert!(rounds < 1000);
    }
    assert!(rounds > 100, "{rounds}");
}

/// Old SACKs in turn with new ones cost no more than their blocks, and end nothing.
#[test]
fn sacks_in_any_order_examine_nothing_again() {
    let mut fixture = Fixture::with_rack(3);
    fixture.sack(3, &[]);
    for _ in 0..3000 {
        fixture.push(20);
    }
    while !fixture.packet(0).is_empty() {}
    fixture.wait(100);
    let odd: Vec<_> = (0..1000).map(|number| (4 + 2 * number, 4 + 2 * number)).collect();
    fixture.sack(3, &odd);
    let (flight, before) = (fixture.flight[0], examinations(&fixture));
    for _ in 0..1000 {
        for gaps in [&odd[..1], &odd[..], &[], &odd[500..]] {
            applied(fixture.sack(3, gaps).0);
        }
    }
    assert_eq!((fixture.flight[0], examinations(&fixture)), (flight, before));
}

/// Returns how often loss detection has looked at a chunk.
fn examinations(fixture: &Fixture) -> usize {
    fixture.out.busy.as_ref().unwrap().sent.rack.as_ref().unwrap().examinations
}

#[test]
fn window_of_any_size_is_taken() {
    let mut fixture = Fixture::with_outstanding(5);
    for a_rwnd in [0, 1, u32::MAX, 5 * FULL as u32] {
        fixture.a_rwnd = a_rwnd;
        fixture.sack(0, &[]);
        assert_eq!(fixture.out.peer_rwnd(), a_rwnd.saturating_sub(5 * FULL as u32));
    }
    fixture.a_rwnd = u32::MAX;
    fixture.sack(0, &[]);
    fixture.timeout(0);
    assert_eq!(fixture.out.peer_rwnd(), u32::MAX);
}

/// What a SACK repeats is judged again only when time has passed, for first transmissions and retransmissions. A peer
/// that repeats itself therefore costs little, however many chunks are missing.
#[test]
fn what_sacks_repeat_is_not_judged_again() {
    // On a path that reorders, so that nothing is lost at once.
    let mut fixture = Fixture::with_rack(3);
    fixture.sack(0, &[(1, 1)]);
    fixture.sack(3, &[]);
    let many = 3000;
    for _ in 0..many {
        fixture.push(20);
    }
    while !fixture.packet(0).is_empty() {}
    fixture.wait(100);
    let repeated = |fixture: &mut Fixture, next: u32, gaps: &[(u32, u32)]| {
        fixture.sack(next, gaps);
        let before = examinations(fixture);
        for _ in 0..100 {
            fixture.sack_twice(next, gaps, &[1]);
        }
        examinations(fixture) - before
    };
    let last = (many + 2, many + 2);
    assert_eq!(repeated(&mut fixture, 3, &[last]), 0);
    // Time has passed, by the timer or by a SACK that arrives then.
    let before = examinations(&fixture);
    fixture.now = fixture.out.loss_deadline();
    let (_, acks) = fixture.sack(3, &[last]);
    assert_eq!((acks[0].lost.bytes, examinations(&fixture) - before), (36 * (many - 1), many as usize - 1));
    // All are retransmitted, and one of them arrives.
    assert_eq!(fixture.tsns(0).len(), many as usize - 1);
    fixture.wait(100);
    assert_eq!(repeated(&mut fixture, 3, &[(many + 1, many + 2)]), 0);
    assert!(fixture.loss_timer().is_some());
}
