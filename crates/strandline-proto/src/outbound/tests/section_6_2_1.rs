//! Processing a received SACK.

use super::*;

/// Rules A, B and D ii.
#[test]
fn window_is_advertised_less_outstanding() {
    let mut fixture = Fixture::with_window(10_000);
    for _ in 0..4 {
        fixture.push(1000);
    }
    fixture.packets(0);
    assert_eq!(fixture.out.peer_rwnd(), 6000);
    fixture.a_rwnd = 9000;
    fixture.sack(1, &[(2, 2)]);
    assert_eq!(fixture.out.peer_rwnd(), 7000, "two chunks of 1,000 are outstanding");
}

/// Rule C.
#[test]
fn marking_for_retransmission_gives_the_window_back() {
    let mut fixture = Fixture::with_window(10_000);
    fixture.push(1000);
    fixture.push(1000);
    fixture.packets(0);
    fixture.timeout(0);
    assert_eq!(fixture.out.peer_rwnd(), 10_000);
    fixture.packet(0);
    assert_eq!(fixture.out.peer_rwnd(), 9_000, "1,000 and 16 bytes fit once");
}

/// Rule D i.
#[test]
fn older_sack_is_dropped() {
    let mut fixture = Fixture::with_outstanding(5);
    fixture.sack(3, &[]);
    fixture.a_rwnd = 5;
    let (outcome, acks) = fixture.sack(2, &[(4, 4)]);
    assert_eq!(outcome, SackOutcome::Ignored);
    assert!(acks.iter().all(PathAck::is_nothing));
    assert_eq!(fixture.out.cumulative_ack(), Tsn(INITIAL) + 2);
    assert!(fixture.out.peer_rwnd() > 5);
}

#[test]
fn cumulative_acknowledgement_is_booked_on_each_path() {
    let mut fixture = Fixture::new();
    for path in [0, 1, 1] {
        fixture.push(FULL);
        fixture.packet(path);
    }
    let (outcome, acks) = fixture.sack(2, &[]);
    let expected = Applied {
        cumulative_advanced: true,
        newly_acked: true,
        entered_fast_recovery: false,
        in_fast_recovery: false,
        all_acked: false,
        writable: false,
    };
    assert_eq!(applied(outcome), expected);
    for ack in acks.iter().take(2) {
        assert_eq!((ack.acked.bytes, ack.acked.chunks, ack.acked.flight_drop), (ROOM as u32, 1, ROOM as u32));
    }
    let (outcome, _) = fixture.sack(3, &[]);
    assert!(applied(outcome).all_acked);
    assert!(fixture.out.is_empty());
}

#[test]
fn same_sack_again_acknowledges_nothing_new() {
    let mut fixture = Fixture::with_outstanding(5);
    fixture.sack(1, &[(2, 3)]);
    let (outcome, acks) = fixture.sack(1, &[(2, 3)]);
    let outcome = applied(outcome);
    assert!(!outcome.cumulative_advanced && !outcome.newly_acked);
    assert!(acks.iter().all(PathAck::is_nothing));
}

/// Chunks in gap blocks leave the flight once, not again with the cumulative acknowledgement.
#[test]
fn gap_acknowledged_chunks_leave_flight_once() {
    let mut fixture = Fixture::with_outstanding(5);
    let (_, acks) = fixture.sack(0, &[(1, 2), (4, 4)]);
    assert_eq!(acks[0].acked.bytes, 3 * ROOM as u32);
    let (_, acks) = fixture.sack(3, &[(4, 4)]);
    assert_eq!((acks[0].acked.bytes, acks[0].acked.flight_drop), (ROOM as u32, ROOM as u32));
    let (_, acks) = fixture.sack(5, &[]);
    assert_eq!(acks[0].acked.bytes, ROOM as u32);
}

/// Rule D iii: the chunk is in flight again, with one miss indication and T3-rtx running.
#[test]
fn gap_acknowledgement_taken_back() {
    let mut fixture = Fixture::with_outstanding(7);
    fixture.sack(0, &[(3, 4)]);
    let (outcome, acks) = fixture.sack(1, &[(3, 3)]);
    assert!(applied(outcome).newly_acked);
    assert_eq!((acks[0].lost.reneged_bytes, acks[0].lost.reneged), (ROOM as u32, true));
    // Two further indications are enough: 4 had one for being revoked, and 1 and 2 had one before.
    fixture.sack(1, &[(3, 3), (5, 5)]);
    assert!(!fixture.out.has_retransmissions());
    let (_, acks) = fixture.sack(1, &[(3, 3), (5, 6)]);
    assert_eq!(acks[0].lost.bytes, 3 * ROOM as u32, "1, 2 and 4");
    assert_eq!(fixture.tsns(0), [1, 2, 4]);
}

/// A SACK with the Cumulative TSN Ack of the one before may be older: what it omits stays acknowledged, and it may add
/// what the other one had not. This is no reneging, however often it happens.
#[test]
fn overtaken_sacks_revoke_nothing() {
    for mut fixture in [Fixture::with_outstanding(60), Fixture::with_rack(60)] {
        fixture.wait(100);
        fixture.sack(0, &[(1, 9), (20, 30)]);
        let flight = fixture.flight[0];
        let lost = fixture.tsns(0);
        fixture.wait(1);
        for gaps in [&[(1, 4)][..], &[], &[(2, 3), (22, 22)], &[(1, 9), (20, 30)], &[(9, 9)]] {
            let (outcome, acks) = fixture.sack(0, gaps);
            assert!(!applied(outcome).newly_acked, "{gaps:?}");
            let nothing = PathAck { in_recovery: acks[0].in_recovery, ..PathAck::default() };
            assert_eq!(acks[0], nothing, "{gaps:?}");
        }
        let flight = flight + lost.len() as u32 * ROOM as u32;
        assert_eq!(fixture.flight[0], flight, "what was lost is sent again");
        // New beyond, between and joined with what is known.
        let (_, acks) = fixture.sack(0, &[(4, 12), (15, 15), (40, 41)]);
        assert_eq!((acks[0].acked.chunks, acks[0].lost.reneged_bytes), (6, 0));
        let runs: Vec<_> = fixture.out.busy.as_ref().unwrap().sent.gaps.runs().to_vec();
        let runs: Vec<_> = runs.iter().map(|run| (run.start, run.end)).collect();
        assert_eq!(runs, [(1, 12), (15, 15), (20, 30), (40, 41)]);
        // A higher Cumulative TSN Ack shows what the peer does not have.
        let (_, acks) = fixture.sack(1, &[(20, 30)]);
        assert_eq!(acks[0].lost.reneged_bytes, 15 * ROOM as u32);
    }
}

/// A SACK with many blocks may be full: it revokes nothing that it has no room for. One with few does.
#[test]
fn full_sack_says_nothing_beyond_its_end() {
    let mut fixture = Fixture::with_rack(60);
    // The odd ones up to 40 have arrived, then only up to 36 are reported.
    let blocks =
        |count: u32| -> Vec<(u32, u32)> { (1..=count).map(|block| (2 * block, 2 * block)).collect() };
    fixture.sack(0, &blocks(20));
    let (_, acks) = fixture.sack(1, &blocks(18));
    assert_eq!((acks[0].lost.reneged_bytes, acks[0].acked.flight_drop), (0, 0));
    // Chunks below the last block that are not reported are revoked.
    let (_, acks) = fixture.sack(3, &[&blocks(7)[1..], &blocks(18)[8..]].concat());
    assert_eq!(acks[0].lost.reneged_bytes, ROOM as u32);
    // All but four are revoked.
    let (_, acks) = fixture.sack(5, &blocks(6)[2..]);
    assert_eq!(acks[0].lost.reneged_bytes, 13 * ROOM as u32);
}

/// RFC 9260 alone makes no such distinction.
#[test]
fn miss_indications_take_unnamed_chunks_back() {
    let mut fixture = Fixture::with_outstanding(60);
    let blocks =
        |count: u32| -> Vec<(u32, u32)> { (1..=count).map(|block| (2 * block, 2 * block)).collect() };
    fixture.sack(0, &blocks(20));
    let (_, acks) = fixture.sack(1, &blocks(16));
    assert_eq!((acks[0].lost.reneged_bytes, acks[0].acked.flight_drop), (4 * ROOM as u32, ROOM as u32));
}

/// A peer that acknowledges and revokes in turns does not grow the congestion window.
#[test]
fn reacknowledged_chunks_are_no_news() {
    let mut fixture = Fixture::with_outstanding(12);
    fixture.sack(0, &[(10, 11)]);
    for next in 1..6 {
        fixture.sack(next, &[]);
        let (outcome, acks) = fixture.sack(next, &[(10, 11)]);
        assert!(!applied(outcome).newly_acked);
        assert_eq!((acks[0].acked.bytes, acks[0].acked.flight_drop), (0, 2 * ROOM as u32));
        assert_eq!(acks[0].rtt.sent_at, None);
        assert!(!acks[0].acked.lowest);
    }
}

/// The peer has less room than what is outstanding. Rule C returns marked chunks, but never more than the peer has
/// room for. SHUTDOWN, which does not report the window, returns nothing.
#[test]
fn marked_chunks_give_back_at_most_a_rwnd() {
    let mut fixture = Fixture::with_outstanding(3);
    fixture.a_rwnd = 700;
    fixture.sack(0, &[]);
    assert_eq!(fixture.out.peer_rwnd(), 0);
    fixture.timeout(0);
    assert_eq!(fixture.out.peer_rwnd(), 700);
    assert_eq!(fixture.tsns(0), [0, 1, 2]);
    let mut acks = Acks::default();
    let outcome = fixture.out.on_cumulative(fixture.now, Tsn(INITIAL) + 2, &mut acks);
    fixture.apply(&acks);
    assert!(applied(outcome).all_acked);
    assert_eq!(fixture.out.peer_rwnd(), 0);
}

/// INITs of both sides met, and the peer's window is smaller than the data that went with a COOKIE ECHO.
#[test]
fn a_first_window_is_given_back_no_further() {
    let mut fixture = Fixture::with_outstanding(3);
    assert!(fixture.out.set_peer(700, 9).is_empty());
    assert_eq!(fixture.out.peer_rwnd(), 0);
    fixture.timeout(0);
    assert_eq!(fixture.out.peer_rwnd(), 700);
}

/// SHUTDOWN's acknowledgement does not report gaps: it revokes nothing that it does not contradict.
#[test]
fn cumulative_acknowledgement_of_shutdown() {
    let mut fixture = Fixture::with_outstanding(6);
    fixture.sack(0, &[(3, 4)]);
    let rwnd = fixture.out.peer_rwnd();
    let mut acks = Acks::default();
    let outcome = fixture.out.on_cumulative(fixture.now, Tsn(INITIAL) + 1, &mut acks);
    fixture.apply(&acks);
    assert!(applied(outcome).newly_acked);
    assert_eq!((acks[0].acked.bytes, acks[0].lost.reneged_bytes), (2 * ROOM as u32, 0));
    assert_eq!(fixture.out.peer_rwnd(), rwnd);
    let mut nothing = Acks::default();
    let outcome = fixture.out.on_cumulative(fixture.now, Tsn(INITIAL), &mut nothing);
    assert_eq!(outcome, SackOutcome::Ignored);
    let outcome = fixture.out.on_cumulative(fixture.now, Tsn(INITIAL) + 6, &mut nothing);
    assert_eq!(outcome, SackOutcome::Ignored, "what was never sent can't be acknowledged");
    let outcome = fixture.out.on_cumulative(fixture.now, Tsn(INITIAL) + 5, &mut nothing);
    assert!(applied(outcome).all_acked);
}

/// A SHUTDOWN that acknowledges everything before a chunk in a gap block contradicts it: the peer has revoked that
/// chunk, and perhaps the others.
#[test]
fn shutdown_that_contradicts_gap_blocks_revokes_them() {
    for mut fixture in [Fixture::with_outstanding(9), Fixture::with_rack(9)] {
        fixture.wait(100);
        let (_, acks) = fixture.sack(0, &[(2, 3), (5, 6)]);
        assert_eq!(acks[0].acked.chunks, 4);
        let mut acks = Acks::default();
        let outcome = fixture.out.on_cumulative(fixture.now, Tsn(INITIAL) + 1, &mut acks);
        fixture.apply(&acks);
        fixture.check();
        assert!(!applied(outcome).all_acked);
        assert_eq!(acks[0].lost.reneged_bytes, 4 * ROOM as u32);
        assert!(!fixture.out.has_gaps());
        fixture.timeout(0);
        assert_eq!(fixture.tsns(0), (2..9).collect::<Vec<_>>());
        applied(fixture.sack(9, &[]).0);
        assert!(fixture.out.is_empty());
    }
}

/// The SACK behind a SHUTDOWN, often in the same packet, acknowledges as much, which is more than any SACK before: it
/// is newer than those, and what it leaves out the peer no longer has.
#[test]
fn a_sack_behind_a_shutdown_is_newer() {
    for mut fixture in [Fixture::with_outstanding(60), Fixture::with_rack(60)] {
        fixture.wait(100);
        fixture.sack(0, &[(3, 4), (6, 6), (9, 20)]);
        let mut acks = Acks::default();
        let outcome = fixture.out.on_cumulative(fixture.now, Tsn(INITIAL) + 1, &mut acks);
        fixture.apply(&acks);
        assert!(applied(outcome).cumulative_advanced);
        let (_, acks) = fixture.sack(2, &[(4, 4), (9, 18)]);
        assert_eq!(acks[0].lost.reneged_bytes, 4 * ROOM as u32, "3, 6, 19 and 20");
        // Another one of this kind may be older.
        for gaps in [&[(9, 12)][..], &[], &[(4, 4)]] {
            let (_, acks) = fixture.sack(2, gaps);
            assert_eq!(acks[0].lost.reneged_bytes, 0, "{gaps:?}");
        }
        // So may one that acknowledges as much as a SACK has since.
        let mut acks = Acks::default();
        let outcome = fixture.out.on_cumulative(fixture.now, Tsn(INITIAL) + 2, &mut acks);
        fixture.apply(&acks);
        assert!(applied(outcome).cumulative_advanced);
        fixture.sack(6, &[(9, 18), (20, 20)]);
        let (_, acks) = fixture.sack(6, &[(9, 9)]);
        assert_eq!(acks[0].lost.reneged_bytes, 0);
    }
}

/// Idle associations process SACKs too, without any heap.
#[test]
fn sack_with_nothing_outstanding() {
    let mut fixture = Fixture::new();
    fixture.a_rwnd = 77;
    let (outcome, _) = fixture.sack(0, &[]);
    assert!(applied(outcome).all_acked);
    assert_eq!(fixture.out.peer_rwnd(), 77);
    assert!(matches!(fixture.sack(1, &[]).0, SackOutcome::Violation(_)));
    assert!(matches!(fixture.sack(0, &[(0, 0)]).0, SackOutcome::Violation(_)));
    assert_eq!(fixture.raw_sack(Tsn(INITIAL - 5), &[]).0, SackOutcome::Ignored);
    assert_eq!(fixture.out.heap_bytes(), 0);
}

/// The peer had no room for the lowest chunk. A SHUTDOWN acknowledges it, so that a SACK which reports room shows
/// nothing about the other chunks: none is retransmitted.
#[test]
fn shutdown_that_acknowledges_opens_the_window() {
    let mut fixture = Fixture::with_rack(3);
    fixture.a_rwnd = 700;
    fixture.sack(0, &[]);
    assert!(fixture.out.window_is_shut());
    let mut acks = Acks::default();
    fixture.out.on_cumulative(fixture.now, Tsn(INITIAL), &mut acks);
    fixture.apply(&acks);
    assert!(!fixture.out.window_is_shut());
    fixture.a_rwnd = 100_000;
    let (outcome, _) = fixture.sack(1, &[]);
    assert!(matches!(outcome, SackOutcome::Applied { window_opened: false, .. }), "{outcome:?}");
    assert!(!fixture.out.has_retransmissions());
}
