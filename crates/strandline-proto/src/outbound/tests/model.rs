//! Random commands, checked against a model that examines every chunk for every query.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

/// A chunk as the model knows it. TSNs are less the initial one and do not wrap.
#[derive(Debug, Clone)]
struct Known {
    tsn: u32,
    /// Bytes of user data.
    len: u32,
    /// Bytes of the chunk, including header and padding.
    size: u32,
    path: usize,
    sent_at: Time,
    /// The packet that first carried it, by its position in the model's order of transmissions.
    first_sent: u64,
    resent: bool,
    /// True if it was sent on several paths.
    moved: bool,
    acked: bool,
    marked: bool,
    misses: u32,
    fast: bool,
    acked_before: bool,
    reneged: bool,
}

#[derive(Debug, Default)]
struct Model {
    chunks: Vec<Known>,
    next: u32,
    cumulative: u32,
    /// True if a SHUTDOWN acknowledged more than all SACKs before.
    ahead: bool,
    recovery_exit: Option<u32>,
    /// Order of the latest retransmission of any chunk.
    last_resent: u64,
    order: u64,
}

/// The expected effects of a SACK.
#[derive(Debug, Default, PartialEq, Eq)]
struct Expected {
    acks: Acks,
    newly_acked: bool,
    entered: bool,
    in_recovery: bool,
}

impl Model {
    fn sent(&mut self, chunk: &Sent, path: usize, now: Time) {
        self.order += 1;
        if let Some(known) = self.chunks.iter_mut().find(|known| known.tsn == chunk.tsn) {
            assert!(known.marked, "only marked chunks are sent again");
            known.moved |= known.path != path;
            (known.path, known.sent_at, known.resent, known.marked, known.misses) =
                (path, now, true, false, 0);
            self.last_resent = self.order;
            return;
        }
        assert_eq!(chunk.tsn, self.next);
        assert!(self.chunks.iter().all(|known| !known.marked), "retransmissions go first");
        self.next += 1;
        self.chunks.push(Known {
            tsn: chunk.tsn,
            len: chunk.payload.len() as u32,
            size: chunk.size() as u32,
            path,
            sent_at: now,
            first_sent: self.order,
            resent: false,
            moved: false,
            acked: false,
            marked: false,
            misses: 0,
            fast: false,
            acked_before: false,
            reneged: false,
        });
    }

    fn timeout(&mut self, path: usize) {
        self.recovery_exit = None;
        for chunk in self.chunks.iter_mut().filter(|c| c.path == path && !c.acked && !c.marked) {
            (chunk.marked, chunk.misses) = (true, 0);
        }
    }

    /// True if a SACK, which `advanced` the acknowledged TSNs or not, may be older than the one before.
    fn may_be_old(&mut self, advanced: bool) -> bool {
        let is_newer = core::mem::take(&mut self.ahead) || advanced;
        !is_newer && self.chunks.first().is_some_and(|chunk| !chunk.acked)
    }

    /// `next` is the first TSN not cumulatively acknowledged, `gaps` all TSNs in gap blocks.
    fn sack(&mut self, next: u32, gaps: &BTreeSet<u32>) -> Expected {
        let mut expected = Expected::default();
        let advanced = next > self.cumulative;
        let mut gaps = gaps.clone();
        if self.may_be_old(advanced) {
            gaps.extend(self.chunks.iter().filter(|chunk| chunk.acked).map(|chunk| chunk.tsn));
        }
        self.cumulative = next;
        if self.recovery_exit.is_some_and(|exit| next > exit) {
            self.recovery_exit = None;
        }
        expected.in_recovery = self.recovery_exit.is_some();
        let outstanding: Vec<(usize, u32)> =
            self.chunks.iter().filter(|c| !c.acked).map(|c| (c.path, c.tsn)).collect();
        let now_acked = |tsn: u32| tsn < next || gaps.contains(&tsn);
        let mut highest = None;
        for chunk in self.chunks.iter_mut().filter(|c| !c.acked && now_acked(c.tsn)) {
            let ack = &mut expected.acks[chunk.path];
            if !chunk.marked {
                ack.acked.flight_drop += chunk.size;
            }
            let news = !chunk.acked_before;
            if news {
                ack.acked.bytes += chunk.size;
                ack.acked.chunks += 1;
                ack.acked.answered |= !chunk.moved;
                ack.acked.answered_in_time |= !chunk.moved && !chunk.marked;
                expected.newly_acked = true;
                highest = Some(chunk.tsn);
                if !chunk.resent && chunk.first_sent > self.last_resent {
                    ack.rtt.sent_at = ack.rtt.sent_at.max(Some(chunk.sent_at));
                }
            }
            let earliest = outstanding
                .iter()
                .all(|&(path, tsn)| path != chunk.path || tsn >= chunk.tsn || now_acked(tsn));
            ack.acked.lowest |= earliest && (news || chunk.tsn < next);
            (chunk.acked, chunk.acked_before, chunk.marked, chunk.misses) = (true, true, false, 0);
        }
        let last_reported = gaps.last().copied();
        let all = expected.in_recovery && advanced;
        let below = if all { highest.max(last_reported) } else { highest };
        let mut marked = false;
        for chunk in self.chunks.iter_mut().filter(|c| c.tsn >= next) {
            if chunk.acked && !gaps.contains(&chunk.tsn) {
                (chunk.acked, chunk.misses, chunk.resent, chunk.reneged) = (false, 1, true, true);
                expected.acks[chunk.path].lost.reneged = true;
                expected.acks[chunk.path].lost.reneged_bytes += chunk.size;
            } else if !chunk.acked
                && !chunk.marked
                && !chunk.fast
                && below.is_some_and(|below| chunk.tsn < below)
            {
                chunk.misses += 1;
                if chunk.misses == 3 {
                    (chunk.marked, chunk.fast, marked) = (true, true, true);
                    expected.acks[chunk.path].lost.bytes += chunk.size;
                    expected.acks[chunk.path].lost.chunks += 1;
                    expected.acks[chunk.path].begins_congestion_event |= !expected.in_recovery;
                }
            }
        }
        if marked && !expected.in_recovery {
            expected.entered = true;
            self.recovery_exit = Some(self.next - 1);
        }
        self.chunks.retain(|chunk| chunk.tsn >= next);
        expected
    }

    fn flight(&self, path: usize) -> u32 {
        self.chunks.iter().filter(|c| c.path == path && !c.acked && !c.marked).map(|c| c.size).sum()
    }

    /// Returns the user data in flight on all paths.
    fn in_flight(&self) -> u32 {
        self.chunks.iter().filter(|c| !c.acked && !c.marked).map(|c| c.len).sum()
    }

    fn first_marked(&self) -> Option<u32> {
        self.chunks.iter().find(|chunk| chunk.marked).map(|chunk| chunk.tsn)
    }
}

#[derive(Debug, Clone)]
enum Command {
    Push {
        stream: u16,
        len: usize,
        unordered: bool,
    },
    Packet {
        path: u8,
        room: usize,
    },
    Timeout {
        path: u8,
    },
    /// A SACK for outstanding chunks: how much cumulatively, and which of the rest (bits, repeated).
    Sack {
        share: u32,
        gaps: u64,
        a_rwnd: u32,
    },
    /// Blocks as given, from an acknowledgement at some distance of the ack point.
    Hostile {
        distance: i32,
        blocks: Vec<(u16, u16)>,
    },
    Shutdown {
        share: u32,
    },
    PermitProbe,
    ReleaseIdle,
    Wait {
        ms: u64,
    },
}

fn command() -> impl Strategy<Value = Command> {
    let len = prop_oneof![4 => 1_usize..200, 2 => 200_usize..2000, 1 => 2000_usize..9000];
    let room = prop_oneof![5 => Just(ROOM), 1 => 20_usize..2000];
    let a_rwnd = prop_oneof![6 => Just(1_u32 << 20), 1 => 0_u32..3000];
    let distance = prop_oneof![4 => -3_i32..6, 1 => any::<i32>()];
    let edge = || prop_oneof![4 => 0_u16..20, 1 => any::<u16>()];
    let blocks = prop::collection::vec((edge(), edge()), 0..6);
    let gaps =
        prop_oneof![2 => Just(0_u64), 1 => any::<u64>(), 2 => (0_u32..64).prop_map(|hole| !(1 << hole))];
    prop_oneof![
        6 => (0_u16..6, len, any::<bool>()).prop_map(|(stream, len, unordered)| Command::Push { stream, len, unordered }),
        8 => (0_u8..3, room).prop_map(|(path, room)| Command::Packet { path, room }),
        1 => (0_u8..3).prop_map(|path| Command::Timeout { path }),
        8 => (0_u32..8, gaps, a_rwnd).prop_map(|(share, gaps, a_rwnd)| Command::Sack { share, gaps, a_rwnd }),
        1 => (distance, blocks).prop_map(|(distance, blocks)| Command::Hostile { distance, blocks }),
        1 => (0_u32..8).prop_map(|share| Command::Shutdown { share }),
        1 => Just(Command::PermitProbe),
        1 => Just(Command::ReleaseIdle),
        3 => (0_u64..50).prop_map(|ms| Command::Wait { ms }),
    ]
}

/// Both sides of the comparison, and a receiver that reassembles messages.
struct Run {
    fixture: Fixture,
    model: Model,
    /// Messages pushed and not sent to their end, with how much of the first was sent.
    waiting: VecDeque<(u16, usize, bool)>,
    sent_of_first: usize,
    ssns: [u16; 6],
}

impl Run {
    fn new() -> Self {
        let fixture = Fixture::new();
        Self { fixture, model: Model::default(), waiting: VecDeque::new(), sent_of_first: 0, ssns: [0; 6] }
    }

    fn step(&mut self, command: &Command) {
        match *command {
            Command::Push { stream, len, unordered } => self.push(stream, len, unordered),
            Command::Packet { path, room } => self.packet(path, room),
            Command::Timeout { path } => {
                let flight = self.model.flight(usize::from(path));
                assert_eq!(self.fixture.timeout(path), flight);
                self.model.timeout(usize::from(path));
            }
            Command::Sack { share, gaps, a_rwnd } => self.sack(share, gaps, a_rwnd),
            Command::Hostile { distance, ref blocks } => self.hostile(distance, blocks),
            Command::Shutdown { share } => self.shutdown(share),
            Command::PermitProbe => self.fixture.out.permit_window_probe(),
            Command::ReleaseIdle => self.fixture.out.release_idle(),
            Command::Wait { ms } => self.fixture.wait(ms),
        }
        self.compare();
    }

    fn push(&mut self, stream: u16, len: usize, unordered: bool) {
        let info = SendInfo { stream: StreamId(stream), unordered, ..SendInfo::default() };
        if self
            .fixture
            .out
            .push(Time::ZERO, info, &mut message(len), &self.fixture.config, |_| {
                self.fixture.config.send_buffer_start()
            })
            .is_ok()
        {
            self.waiting.push_back((stream, len, unordered));
        }
    }

    fn packet(&mut self, path: u8, room: usize) {
        let mut space = room;
        let mut last = None;
        loop {
            let fixture = &mut self.fixture;
            let again =
                fixture.out.next_retransmission(fixture.now, at(path), space).map(|data| Sent::new(&data));
            let fresh = again.is_none();
            let Some(chunk) = again
                .or_else(|| Some(Sent::new(&fixture.out.next_new(fixture.now, at(path), space, room)?)))
            else {
                return;
            };
            fixture.flight[usize::from(path)] += chunk.size() as u32;
            assert!(chunk.size() <= space, "the chunk fits");
            assert!(last < Some(chunk.tsn), "TSNs of a packet rise");
            last = Some(chunk.tsn);
            space -= chunk.size();
            self.model.sent(&chunk, usize::from(path), fixture.now);
            if fresh {
                self.follows(&chunk, room);
            }
        }
    }

    /// Checks that the chunk is the next part of the first waiting message.
    fn follows(&mut self, chunk: &Sent, room: usize) {
        let &(stream, len, unordered) = self.waiting.front().expect("only what was pushed is sent");
        let from = self.sent_of_first;
        let to = from + chunk.payload.len();
        assert_eq!((chunk.stream, chunk.unordered), (stream, unordered));
        assert_eq!((chunk.beginning, chunk.ending), (from == 0, to == len));
        assert_eq!(chunk.payload, message(len)[from..to]);
        assert!(from > 0 || chunk.ending || len > room.saturating_sub(16) & !3, "cut only if it must be");
        let ssn = &mut self.ssns[usize::from(stream)];
        assert!(unordered || chunk.ssn == *ssn);
        self.sent_of_first = to;
        if chunk.ending {
            self.sent_of_first = 0;
            self.waiting.pop_front();
            *ssn = ssn.wrapping_add(u16::from(!unordered));
        }
    }

    fn sack(&mut self, share: u32, gaps: u64, a_rwnd: u32) {
        let outstanding = self.model.next - self.model.cumulative;
        let next = self.model.cumulative + outstanding * share / 7;
        let named: BTreeSet<u32> =
            (next..self.model.next).filter(|tsn| gaps & (1 << (tsn % 64)) != 0).collect();
        let blocks: Vec<(u32, u32)> = named.iter().map(|&tsn| (tsn, tsn)).collect();
        self.fixture.a_rwnd = a_rwnd;
        let (outcome, acks) = self.fixture.sack(next, &blocks);
        let advanced = next > self.model.cumulative;
        let expected = self.model.sack(next, &named);
        assert_eq!(acks, expected.acks);
        self.same_outcome(outcome, advanced, &expected);
        let in_flight = self.model.in_flight();
        assert_eq!(self.fixture.out.peer_rwnd(), a_rwnd.saturating_sub(in_flight));
    }

    fn same_outcome(&self, outcome: SackOutcome, advanced: bool, expected: &Expected) {
        let outcome = applied(outcome);
        assert_eq!(outcome.cumulative_advanced, advanced);
        assert_eq!(outcome.newly_acked, expected.newly_acked);
        assert_eq!(outcome.entered_fast_recovery, expected.entered);
        assert_eq!(outcome.in_fast_recovery, expected.in_recovery);
        assert_eq!(outcome.all_acked, self.model.chunks.is_empty());
    }

    fn hostile(&mut self, distance: i32, pairs: &[(u16, u16)]) {
        let cumulative = Tsn(INITIAL) + self.model.cumulative.wrapping_sub(1).wrapping_add_signed(distance);
        let blocks: Vec<_> = pairs.iter().map(|&(start, end)| GapBlock { start, end }).collect();
        let (outcome, acks) = self.fixture.raw_sack(cumulative, &blocks);
        let next = i64::from(self.model.cumulative) + i64::from(distance);
        let behind = distance < 0 && distance > i32::MIN;
        if behind {
            assert_eq!(outcome, SackOutcome::Ignored);
            return;
        }
        let well_formed = blocks.iter().filter(|block| block.start <= block.end && block.end > 0);
        let named: BTreeSet<i64> = well_formed
            .flat_map(|block| i64::from(block.start.max(1))..=i64::from(block.end))
            .map(|offset| next - 1 + offset)
            .collect();
        let sent = i64::from(self.model.next);
        if next > sent || distance == i32::MIN || named.last().is_some_and(|&tsn| tsn >= sent) {
            assert!(matches!(outcome, SackOutcome::Violation(_)), "{outcome:?}");
            assert!(acks.iter().all(PathAck::is_nothing));
            return;
        }
        let named = named.into_iter().map(|tsn| tsn as u32).collect();
        let expected = self.model.sack(next as u32, &named);
        assert_eq!(acks, expected.acks);
        self.same_outcome(outcome, distance > 0, &expected);
    }

    fn shutdown(&mut self, share: u32) {
        let outstanding = self.model.next - self.model.cumulative;
        let next = self.model.cumulative + outstanding * share / 7;
        let mut acks = Acks::default();
        let tsn = Tsn(INITIAL) + next.wrapping_sub(1);
        let outcome = self.fixture.out.on_cumulative(self.fixture.now, tsn, &mut acks);
        self.fixture.apply(&acks);
        let advanced = next > self.model.cumulative;
        // As a SACK that repeats the gap blocks of the last one, except for the miss indications. If they contain the
        // next chunk, the peer lacks that one after all, and it is as a SACK without blocks.
        let mut named: BTreeSet<u32> =
            self.model.chunks.iter().filter(|c| c.acked && c.tsn >= next).map(|c| c.tsn).collect();
        if named.first() == Some(&next) {
            named.clear();
        }
        let before: Vec<_> = self.model.chunks.iter().filter(|c| !c.acked).cloned().collect();
        let exit = self.model.recovery_exit.filter(|&exit| next <= exit);
        let ahead = self.model.ahead || advanced;
        let mut expected = self.model.sack(next, &named);
        (self.model.recovery_exit, self.model.ahead) = (exit, ahead);
        for chunk in &mut self.model.chunks {
            if let Some(before) = before.iter().find(|before| before.tsn == chunk.tsn) {
                (chunk.misses, chunk.marked, chunk.fast) = (before.misses, before.marked, before.fast);
            }
        }
        for ack in &mut expected.acks {
            (ack.lost.bytes, ack.lost.chunks, ack.begins_congestion_event) = (0, 0, false);
        }
        expected.entered = false;
        assert_eq!(acks, expected.acks);
        self.same_outcome(outcome, advanced, &expected);
    }

    fn compare(&mut self) {
        self.fixture.check();
        for path in 0..PATHS_MAX {
            assert_eq!(self.fixture.flight[path], self.model.flight(path));
        }
        let out = &mut self.fixture.out;
        assert_eq!(out.next_tsn(), Tsn(INITIAL) + self.model.next);
        assert_eq!(out.cumulative_ack(), (Tsn(INITIAL) + self.model.cumulative).previous());
        let first_marked = self.model.first_marked();
        assert_eq!(out.has_retransmissions(), first_marked.is_some());
        assert_eq!(out.in_fast_recovery(), self.model.recovery_exit.is_some());
        assert_eq!(out.retransmission().is_some(), first_marked.is_some());
        let pending: usize = self.waiting.iter().map(|message| message.1).sum::<usize>() - self.sent_of_first;
        assert_eq!(out.pending_bytes(), pending);
        assert_eq!(out.is_empty(), pending == 0 && self.model.chunks.is_empty());
    }

    /// Whatever happened before: an honest peer with a large window gets everything.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            if self.fixture.out.is_empty() {
                return;
            }
            for path in 0..3 {
                self.step(&Command::Timeout { path });
            }
            let room = ROOM.max(self.largest());
            self.step(&Command::Packet { path: 0, room });
            self.step(&Command::Sack { share: 7, gaps: 0, a_rwnd: 1 << 20 });
        }
        panic!("does not finish");
    }

    /// Returns the room for the largest chunk to be retransmitted.
    fn largest(&mut self) -> usize {
        self.fixture.out.retransmission().map_or(0, |next| next.size)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_the_model(commands in prop::collection::vec(command(), 1..120)) {
        let mut run = Run::new();
        for command in &commands {
            run.step(command);
        }
        run.finish();
        let failed = run.fixture.out.fail_all(FailureCause::AssociationEnded).len();
        prop_assert_eq!(failed, 0);
    }

    /// The report at the end contains what was pushed and not completely acknowledged, in order.
    #[test]
    fn everything_pushed_is_delivered_or_reported(commands in prop::collection::vec(command(), 1..80)) {
        let mut run = Run::new();
        let (mut pushed, mut ends) = (Vec::new(), Vec::new());
        for command in &commands {
            let (waiting, next) = (run.waiting.len(), run.model.next);
            run.step(command);
            if let Command::Push { len, .. } = command && run.waiting.len() > waiting {
                pushed.push(*len);
            }
            // The TSN that ended each message is read off the ring once, when it was sent.
            for tsn in next..run.model.next {
                let Busy { sent, messages, .. } = run.fixture.out.busy.as_deref().unwrap();
                let index = sent.outstanding.index_of(Tsn(INITIAL) + tsn).unwrap();
                if sent.outstanding.chunk(index, messages).unwrap().ending {
                    ends.push(tsn);
                }
            }
        }
        let delivered = ends.iter().filter(|&&tsn| tsn < run.model.cumulative).count();
        let failed: Vec<_> = run.fixture.out.fail_all(FailureCause::AssociationEnded).into_iter().map(|failure| failure.data.len()).collect();
        prop_assert_eq!(&failed[..], &pushed[delivered..]);
    }
}
