//! NR-SACK (draft-tuexen-tsvwg-sctp-multipath section 4.4.2): messages leave before what is missing below them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use strandline_wire::NrSack;
use strandline_wire::chunk::nr_sack;

use super::*;
use crate::config::StreamScheduler;

type Runs = [(u32, u32)];

impl Fixture {
    /// Receives an NR-SACK for everything before `next`, with renegable and non-renegable blocks as pairs of TSNs, all
    /// less the initial TSN.
    fn nr_sack(&mut self, next: u32, renegable: &Runs, kept: &Runs) -> SackOutcome {
        let (outcome, acks) = self.take_nr_sack(next, renegable, kept);
        self.apply(&acks);
        outcome
    }

    /// As `nr_sack`, without the path and the comparison of sums: a violation leaves them as they are.
    fn take_nr_sack(&mut self, next: u32, renegable: &Runs, kept: &Runs) -> (SackOutcome, Acks) {
        let offset = |tsn: u32| u16::try_from(tsn + 1 - next).unwrap();
        let block = |&(first, last): &(u32, u32)| GapBlock { start: offset(first), end: offset(last) };
        let mut buffer = vec![0; 65_532];
        let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
        let fixed = (Tsn(INITIAL) + next.wrapping_sub(1), self.a_rwnd);
        let (renegable, kept) = (renegable.iter().map(block), kept.iter().map(block));
        assert!(nr_sack::write_within(&mut builder, usize::MAX, fixed, renegable, kept, &[]));
        let len = builder.finish();
        let mut acks = Acks::default();
        let outcome = on_nr_sack(&mut self.out, self.now, &decode(&buffer[..len]), &mut acks);
        (outcome, acks)
    }

    /// Receives a SHUTDOWN that acknowledges everything before `next`.
    fn shutdown(&mut self, next: u32) -> SackOutcome {
        let mut acks = Acks::default();
        let outcome = self.out.on_cumulative(self.now, Tsn(INITIAL) + next.wrapping_sub(1), &mut acks);
        if matches!(outcome, SackOutcome::Applied { .. }) {
            self.apply(&acks);
        }
        outcome
    }

    fn buffered(&self) -> usize {
        self.out.buffered_bytes()
    }
}

fn decode(bytes: &[u8]) -> NrSack<'_> {
    let raw = Packet::parse(bytes).unwrap().chunks().next().unwrap().unwrap();
    let Chunk::NrSack(sack) = raw.parse().unwrap() else { panic!("not an NR-SACK") };
    sack
}

/// Section 4.4.2: chunks in NR blocks leave the retransmission queue; those in R blocks stay.
#[test]
fn kept_messages_leave_the_send_buffer() {
    let mut fixture = Fixture::with_outstanding(6);
    fixture.nr_sack(0, &[(1, 2)], &[(4, 5)]);
    assert_eq!(fixture.buffered(), 4 * FULL);
    assert_eq!(fixture.out.unacknowledged_messages(), 4);
    let outcome = fixture.nr_sack(0, &[], &[(1, 2), (4, 5)]);
    assert!(matches!(outcome, SackOutcome::Applied { delivered, .. } if delivered == 2 * FULL));
    assert_eq!(fixture.buffered(), 2 * FULL);
    // What is missing is still there and is sent again.
    fixture.timeout(0);
    assert_eq!(fixture.tsns(0), [0, 3]);
    let outcome = fixture.nr_sack(6, &[], &[]);
    assert!(
        matches!(outcome, SackOutcome::Applied { delivered, all_acked: true, .. } if delivered == 2 * FULL)
    );
    assert_eq!(fixture.buffered(), 0);
}

/// A message is one buffer: it leaves with the last of its chunks, whatever their order.
#[test]
fn fragmented_messages_leave_as_a_whole() {
    for order in [[2, 3, 4], [4, 3, 2], [3, 2, 4]] {
        let mut fixture = Fixture::new();
        for len in [FULL, FULL, 3 * FULL, FULL] {
            fixture.push(len);
        }
        assert_eq!(fixture.tsns(0), [0, 1, 2, 3, 4, 5]);
        let mut named = BTreeSet::new();
        for (count, tsn) in (1..).zip(order) {
            named.insert(tsn);
            let runs: Vec<_> = named.iter().map(|tsn| (*tsn, *tsn)).collect();
            fixture.nr_sack(0, &[], &runs);
            let left = if count == 3 { 3 * FULL } else { 6 * FULL };
            assert_eq!(fixture.buffered(), left, "{order:?} {tsn}");
        }
    }
}

/// The beginning of a message leaves with the cumulative TSN, and the rest with it, not before.
#[test]
fn begun_messages_leave_with_the_cumulative_tsn() {
    let mut fixture = Fixture::new();
    fixture.push(4 * FULL);
    fixture.tsns(0);
    fixture.nr_sack(1, &[], &[(2, 3)]);
    assert_eq!(fixture.buffered(), 3 * FULL);
    fixture.nr_sack(4, &[], &[]);
    assert_eq!(fixture.buffered(), 0);
}

/// Section 4.2: later NR-SACKs should name such TSNs again. A peer that does not can't revoke them.
#[test]
fn kept_chunks_are_never_revoked() {
    for by_sack in [false, true] {
        let mut fixture = Fixture::with_outstanding(5);
        fixture.nr_sack(0, &[], &[(2, 4)]);
        let before = fixture.flight;
        if by_sack {
            fixture.sack(0, &[]);
        } else {
            fixture.nr_sack(0, &[], &[]);
        }
        assert_eq!((fixture.buffered(), fixture.flight), (2 * FULL, before));
        fixture.timeout(0);
        assert_eq!(fixture.tsns(0), [0, 1]);
        // Those that gap blocks reported may be.
        fixture.nr_sack(0, &[(1, 1)], &[(2, 4)]);
        fixture.nr_sack(1, &[], &[(2, 4)]);
        fixture.timeout(0);
        assert_eq!(fixture.tsns(0), [1]);
    }
}

/// Blocks of both kinds take room, also where they touch: one chunk each, 16 in all. What they had no room for is not
/// revoked (decision 83).
#[test]
fn adjacent_blocks_of_both_kinds_may_be_all() {
    let mut fixture = Fixture::with_rack(60);
    fixture.nr_sack(0, &[(2, 59)], &[]);
    let (renegable, kept): (Vec<_>, Vec<_>) =
        (2..18).map(|tsn| (tsn, tsn)).partition(|(tsn, _)| tsn % 2 == 0);
    let (_, acks) = fixture.take_nr_sack(1, &renegable, &kept);
    assert_eq!((acks[0].lost.reneged_bytes, acks[0].lost.bytes), (0, 0));
    // One block less shows everything.
    let mut fixture = Fixture::with_rack(60);
    fixture.nr_sack(0, &[(2, 59)], &[]);
    let (_, acks) = fixture.take_nr_sack(1, &renegable, &kept[..7]);
    assert_eq!(acks[0].lost.reneged_bytes, (60 - 17) * ROOM as u32);
}

/// Renegable blocks may leave no room for non-renegable ones. Then the peer has omitted none.
#[test]
fn kept_chunks_beyond_full_reports_stay() {
    let budget = |fixture: &Fixture| fixture.out.busy.as_deref().unwrap().sent.renege_budget;
    for (blocks, omitted) in [(16, 0), (15, 2 * 20)] {
        let mut fixture = Fixture::with_rack(60);
        let renegable: Vec<_> = (0..blocks).map(|block| (2 + 2 * block, 2 + 2 * block)).collect();
        fixture.nr_sack(0, &renegable, &[(40, 59)]);
        let before = budget(&fixture);
        fixture.nr_sack(1, &renegable, &[]);
        assert_eq!(budget(&fixture), before - omitted);
    }
}

/// A peer that says that a TSN is missing after all gets it again, if it has not left.
#[test]
fn kept_chunk_that_is_missing_is_sent_again() {
    for by_shutdown in [false, true] {
        let mut fixture = Fixture::new();
        fixture.push(4 * FULL);
        fixture.tsns(0);
        fixture.nr_sack(1, &[], &[(2, 3)]);
        for missing in [2, 3] {
            let outcome =
                if by_shutdown { fixture.shutdown(missing) } else { fixture.nr_sack(missing, &[], &[]) };
            assert!(matches!(outcome, SackOutcome::Applied { .. }), "{outcome:?}");
            fixture.timeout(0);
            assert_eq!(fixture.tsns(0), [missing]);
        }
        fixture.nr_sack(4, &[], &[]);
        assert_eq!((fixture.buffered(), fixture.flight), (0, [0; 8]));
    }
    // One that has left can't be sent any more.
    let mut fixture = Fixture::with_outstanding(3);
    fixture.nr_sack(1, &[], &[(1, 1)]);
    assert_eq!(fixture.buffered(), FULL);
    assert!(matches!(fixture.nr_sack(1, &[], &[]), SackOutcome::Violation(_)));
    let mut fixture = Fixture::with_outstanding(3);
    fixture.nr_sack(0, &[], &[(2, 2)]);
    assert!(matches!(fixture.shutdown(2), SackOutcome::Violation(_)));
}

/// Section 4.4.2: a TSN that is listed as both is non-renegable. The order of blocks, and what is listed twice or
/// inverted, does not matter.
#[test]
fn overlapping_and_inverted_blocks_form_a_union() {
    let mut fixture = Fixture::with_outstanding(8);
    let runs = [(5, 6), (6, 7), (3, 3), (5, 5), (7, 3)];
    fixture.nr_sack(0, &[(2, 7), (6, 7)], &runs);
    assert_eq!(fixture.buffered(), 4 * FULL);
    fixture.nr_sack(2, &[(3, 7)], &runs);
    assert_eq!(fixture.buffered(), 2 * FULL);
}

#[test]
fn blocks_beyond_what_was_sent_are_violations() {
    let mut fixture = Fixture::with_outstanding(4);
    for (renegable, kept) in [(&[][..], &[(2, 4)][..]), (&[(4, 4)], &[]), (&[(1, 1)], &[(3, 9)])] {
        let outcome = fixture.nr_sack(0, renegable, kept);
        assert!(matches!(outcome, SackOutcome::Violation(_)), "{outcome:?}");
        assert_eq!(fixture.buffered(), 4 * FULL);
    }
}

/// A peer that alternates between naming every other chunk and none makes work each time, if that can't be the work of
/// the network: the cumulative TSN rises.
#[test]
fn endless_changes_of_mind_are_a_violation() {
    for by_sack in [false, true] {
        let mut fixture = Fixture::new();
        fixture.config.send_messages_max = 65_536;
        for _ in 0..2000 {
            fixture.push(1);
        }
        while fixture.new_chunk(0, ROOM).is_some() {}
        let mut rounds = 0;
        let ended = loop {
            let next = 2 * rounds;
            let others: Vec<_> = (next / 2..1000).map(|number| (2 * number + 1, 2 * number + 1)).collect();
            let (told, _) = fixture.take_nr_sack(next, &[], &others);
            let taken = if by_sack {
                let bytes = encode_sack(Tsn(INITIAL) + next + 1, fixture.a_rwnd, &[], &[]);
                fixture.out.on_sack(fixture.now, &decode_sack(&bytes), &mut Acks::default())
            } else {
                fixture.take_nr_sack(next + 2, &[], &[]).0
            };
            rounds += 1;
            if [told, taken].iter().any(|outcome| matches!(outcome, SackOutcome::Violation(_))) {
                break rounds;
            }
            assert!(rounds < 1000);
        };
        assert!(ended > 100, "{ended}");
    }
}

/// NR-SACKs overtake each other: what an older one omits is neither revoked nor counted.
#[test]
fn overtaken_nr_sacks_revoke_nothing() {
    for by_sack in [false, true] {
        let mut fixture = Fixture::with_outstanding(400);
        fixture.nr_sack(0, &[(200, 300)], &[(1, 199)]);
        let before = (fixture.flight, fixture.buffered());
        for _ in 0..2000 {
            let old = if by_sack { fixture.sack(0, &[]).0 } else { fixture.nr_sack(0, &[(200, 250)], &[]) };
            applied(old);
            applied(fixture.nr_sack(0, &[(200, 300)], &[(1, 199)]));
            assert_eq!((fixture.flight, fixture.buffered()), before);
        }
    }
}

/// What the peer keeps is not reported as failed.
#[test]
fn kept_messages_do_not_fail() {
    let mut fixture = Fixture::with_outstanding(5);
    fixture.nr_sack(0, &[(1, 1)], &[(3, 4)]);
    assert_eq!(fixture.out.fail_all(FailureCause::AssociationEnded).len(), 3);
}

/// Interleaved messages whose chunks are far apart leave with the cumulative TSN: it bounds the search for them.
#[test]
fn far_apart_chunks_leave_later() {
    for (streams, early) in [(60, true), (70, false)] {
        let mut fixture = Fixture::with_window(16 << 20);
        fixture.config.send_buffer = Some(16 << 20);
        for stream in 0..streams {
            fixture.push_on(stream, 2 * FULL);
        }
        let Busy { queue, messages, .. } = fixture.out.busy.as_deref_mut().unwrap();
        queue.set_scheduler(messages, StreamScheduler::RoundRobin);
        queue.set_interleaves(true);
        let count = u32::from(streams) * 2;
        assert_eq!(fixture.tsns(0).len(), count as usize);
        fixture.nr_sack(0, &[], &[(1, count - 1)]);
        let left = if early { 2 * FULL } else { count as usize * FULL };
        assert_eq!(fixture.buffered(), left, "{streams}");
        fixture.nr_sack(count, &[], &[]);
        assert_eq!(fixture.buffered(), 0);
        assert!(fixture.out.is_empty());
    }
}

proptest! {
    /// Whatever arrives in whichever order, and whatever part of it is called non-renegable, the send buffer
    /// holds exactly the messages with a chunk that is neither kept nor cumulatively acknowledged, without
    /// what the cumulative TSN covers of them.
    #[test]
    fn accounts_match_a_naive_model(
        chunks in proptest::collection::vec(1_usize..5, 1..12),
        steps in proptest::collection::vec((any::<[u8; 4]>(), any::<u64>(), any::<bool>()), 1..12),
        by_time in any::<bool>(),
    ) {
        let mut fixture = Fixture::new();
        fixture.config.recovery = if by_time { Recovery::Rack } else { Recovery::Rfc9260 };
        for count in &chunks {
            fixture.push(count * FULL);
        }
        fixture.tsns(0);
        let total = chunks.iter().sum::<usize>() as u32;
        let (mut arrived, mut kept) = (BTreeSet::new(), BTreeSet::new());
        let mut next = 0;
        for (arrivals, keeps, plain) in steps {
            arrived.extend(arrivals.iter().map(|tsn| u32::from(*tsn) % total));
            while arrived.contains(&next) {
                next += 1;
            }
            let beyond = || arrived.iter().copied().filter(|tsn| *tsn > next);
            let run = |tsn: u32| (tsn, tsn);
            if plain {
                fixture.sack(next, &beyond().map(run).collect::<Vec<_>>());
            } else {
                kept.extend(beyond().filter(|tsn| keeps >> (tsn % 64) & 1 == 1));
                let lists = [false, true]
                    .map(|wanted| beyond().filter(|tsn| kept.contains(tsn) == wanted).map(run).collect::<Vec<_>>());
                fixture.nr_sack(next, &lists[0], &lists[1]);
            }
            let mut first = 0;
            let mut expected = 0;
            for count in &chunks {
                let tsns = first..first + *count as u32;
                first = tsns.end;
                // A chunk that only the cumulative TSN acknowledged was not kept.
                if !tsns.clone().all(|tsn| kept.contains(&tsn)) {
                    expected += tsns.filter(|tsn| *tsn >= next).count() * FULL;
                }
            }
            prop_assert_eq!(fixture.buffered(), expected);
        }
        fixture.nr_sack(total, &[], &[]);
        prop_assert_eq!(fixture.buffered(), 0);
        prop_assert!(fixture.out.is_empty());
    }
}
