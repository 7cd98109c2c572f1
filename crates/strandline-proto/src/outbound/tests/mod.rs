//! One file for each section of RFC 9260, one for hostile peers, one for a message's life, and a naive model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod events;
mod full_sacks;
mod hostile;
mod interleaving;
mod life;
mod memory;
mod model;
mod nr_sack;
mod rack_model;
mod removal;
mod rfc3522;
mod rfc3708;
mod rfc5682;
mod rfc8985_6;
mod rfc8985_7;
mod section_6_1;
mod section_6_10;
mod section_6_2_1;
mod section_6_3;
mod section_6_4;
mod section_6_5;
mod section_6_9;
mod section_7_2_4;

use core::time::Duration;

use bytes::Bytes;
use strandline_wire::chunk::sack;
use strandline_wire::{Chunk, Data, GapBlock, Packet, PacketBuilder, Sack, VerificationTag};

use super::*;
use crate::config::PATHS_MAX;
use crate::number::{Ppid, StreamId};
use crate::path_index::PerPath;

/// Room of an empty packet in bytes: a path MTU of 1,500 less IPv4, UDP and the common header.
const ROOM: usize = 1460;
/// Payload of the largest chunk in it.
const FULL: usize = ROOM - 16;
const INITIAL: u32 = 0xffff_fff0;

/// A sent chunk, without a borrow.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    /// TSN less the initial one.
    tsn: u32,
    stream: u16,
    ssn: u16,
    unordered: bool,
    beginning: bool,
    ending: bool,
    immediate: bool,
    payload: Vec<u8>,
}

impl Sent {
    fn new(data: &Data<'_>) -> Self {
        Self {
            tsn: data.tsn.0.wrapping_sub(INITIAL),
            stream: data.stream.0,
            ssn: data.ssn.0,
            unordered: data.unordered,
            beginning: data.beginning,
            ending: data.ending,
            immediate: data.immediate,
            payload: data.payload.to_vec(),
        }
    }

    fn size(&self) -> usize {
        16 + self.payload.len().next_multiple_of(4)
    }
}

type Acks = PerPath<PathAck>;

/// Returns the path with a number.
fn at(path: u8) -> PathIndex {
    PathIndex::new(path.into()).unwrap()
}

impl<T> core::ops::Index<usize> for PerPath<T> {
    type Output = T;

    fn index(&self, path: usize) -> &T {
        &self[PathIndex::ALL[path]]
    }
}

impl<T> core::ops::IndexMut<usize> for PerPath<T> {
    fn index_mut(&mut self, path: usize) -> &mut T {
        &mut self[PathIndex::ALL[path]]
    }
}

/// An `Outbound` with the flight of each path, which the association keeps.
struct Fixture {
    out: Outbound,
    config: AssociationConfig,
    now: Time,
    flight: [u32; PATHS_MAX],
    a_rwnd: u32,
}

impl Fixture {
    fn new() -> Self {
        Self::with_window(1 << 20)
    }

    fn with_window(a_rwnd: u32) -> Self {
        Self {
            out: Outbound::new(Tsn(INITIAL), a_rwnd, 100),
            config: AssociationConfig { recovery: Recovery::Rfc9260, ..AssociationConfig::default() },
            now: Time::ZERO,
            flight: [0; PATHS_MAX],
            a_rwnd,
        }
    }

    /// Returns a fixture with this many full chunks outstanding on path 0, TSNs from 0.
    fn with_outstanding(chunks: usize) -> Self {
        let mut fixture = Self::new();
        for _ in 0..chunks {
            fixture.push(FULL);
            assert_eq!(fixture.packet(0).len(), 1);
        }
        fixture
    }

    /// Returns a fixture with loss detection by time. The first window was acknowledged after 100 ms, so that the
    /// round-trip time is known, and `chunks` chunks are outstanding again, one sent per millisecond; TSNs from 0
    /// count these.
    fn with_rack(chunks: usize) -> Self {
        let mut fixture = Self::new();
        fixture.config.recovery = Recovery::Rack;
        fixture.out = Outbound::new(Tsn(INITIAL).previous(), 1 << 20, 100);
        fixture.push(FULL);
        fixture.packet(0);
        fixture.wait(100);
        fixture.sack(0, &[]);
        for _ in 0..chunks {
            fixture.wait(1);
            fixture.push(FULL);
            assert_eq!(fixture.packet(0).len(), 1);
        }
        // The answer to the first of these would arrive now.
        fixture.wait(101 - chunks as u64);
        fixture
    }

    /// Returns the reordering window of path 0.
    fn quarters(&mut self) -> u8 {
        let rack = self.out.busy.as_mut().and_then(|busy| busy.sent.rack.as_mut());
        rack.map_or(0, |rack| rack.path(PathIndex::FIRST).reo_wnd_mult)
    }

    fn wait(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    fn push(&mut self, len: usize) {
        self.push_on(0, len);
    }

    fn push_on(&mut self, stream: u16, len: usize) {
        let info = SendInfo { stream: StreamId(stream), ..SendInfo::default() };
        self.out
            .push(Time::ZERO, info, &mut message(len), &self.config, |_| self.config.send_buffer_start())
            .unwrap();
    }

    fn new_chunk(&mut self, path: u8, space: usize) -> Option<Sent> {
        let sent = Sent::new(&self.out.next_new(self.now, at(path), space, ROOM)?);
        self.flight[usize::from(path)] += sent.size() as u32;
        Some(sent)
    }

    fn again(&mut self, path: u8, space: usize) -> Option<Sent> {
        let sent = Sent::new(&self.out.next_retransmission(self.now, at(path), space)?);
        self.flight[usize::from(path)] += sent.size() as u32;
        Some(sent)
    }

    /// Sends one packet: retransmissions, then new data.
    fn packet(&mut self, path: u8) -> Vec<Sent> {
        let mut space = ROOM;
        let mut chunks = Vec::new();
        while let Some(chunk) = self.again(path, space).or_else(|| self.new_chunk(path, space)) {
            space -= chunk.size();
            chunks.push(chunk);
        }
        self.check();
        chunks
    }

    fn packets(&mut self, path: u8) -> Vec<Vec<Sent>> {
        core::iter::repeat_with(|| self.packet(path)).take_while(|chunks| !chunks.is_empty()).collect()
    }

    /// Returns the TSNs of everything that can be sent.
    fn tsns(&mut self, path: u8) -> Vec<u32> {
        self.packets(path).concat().iter().map(|chunk| chunk.tsn).collect()
    }

    /// Receives a SACK for everything before `next`, with gap blocks as pairs of TSNs, all less the initial TSN.
    fn sack(&mut self, next: u32, gaps: &[(u32, u32)]) -> (SackOutcome, Acks) {
        let offset = |tsn: u32| u16::try_from(tsn + 1 - next).unwrap();
        let blocks: Vec<_> =
            gaps.iter().map(|&(first, last)| GapBlock { start: offset(first), end: offset(last) }).collect();
        self.raw_sack(Tsn(INITIAL) + next.wrapping_sub(1), &blocks)
    }

    fn raw_sack(&mut self, cumulative: Tsn, blocks: &[GapBlock]) -> (SackOutcome, Acks) {
        self.take_sack(cumulative, blocks, &[])
    }

    /// As `sack`, with TSNs that arrived a second time.
    fn sack_twice(&mut self, next: u32, gaps: &[(u32, u32)], duplicates: &[u32]) -> (SackOutcome, Acks) {
        let offset = |tsn: u32| u16::try_from(tsn + 1 - next).unwrap();
        let blocks: Vec<_> =
            gaps.iter().map(|&(first, last)| GapBlock { start: offset(first), end: offset(last) }).collect();
        let duplicates: Vec<_> = duplicates.iter().map(|tsn| Tsn(INITIAL) + *tsn).collect();
        self.take_sack(Tsn(INITIAL) + next.wrapping_sub(1), &blocks, &duplicates)
    }

    /// Lets time pass until overdue chunks are lost; `None` if there are none.
    fn loss_timer(&mut self) -> Option<Acks> {
        let deadline = self.out.loss_deadline();
        if deadline == Time::MAX {
            return None;
        }
        assert!(deadline > self.now, "a deadline is never in the past");
        self.now = deadline;
        let mut acks = Acks::default();
        self.out.on_loss_timer(self.now, &mut acks);
        self.apply(&acks);
        Some(acks)
    }

    fn take_sack(&mut self, cumulative: Tsn, blocks: &[GapBlock], duplicates: &[Tsn]) -> (SackOutcome, Acks) {
        let mut acks = Acks::default();
        let bytes = encode_sack(cumulative, self.a_rwnd, blocks, duplicates);
        let outcome = self.out.on_sack(self.now, &decode_sack(&bytes), &mut acks);
        self.apply(&acks);
        (outcome, acks)
    }

    fn apply(&mut self, acks: &Acks) {
        for (flight, ack) in self.flight.iter_mut().zip(acks) {
            let exact =
                i64::from(*flight) + i64::from(ack.lost.reneged_bytes) + i64::from(ack.lost.reported_bytes)
                    - i64::from(ack.lost.overdue_bytes)
                    - i64::from(ack.acked.flight_drop)
                    - i64::from(ack.lost.bytes);
            assert_eq!(exact, i64::from(ack.flight_after(*flight)), "{ack:?}");
            *flight = ack.flight_after(*flight);
        }
        self.check();
    }

    fn timeout(&mut self, path: u8) -> u32 {
        self.timeout_after(path, false)
    }

    /// With `again`, nothing was acknowledged on the path since the previous time-out.
    fn timeout_after(&mut self, path: u8, again: bool) -> u32 {
        let bytes = self.out.on_timeout(at(path), again);
        self.flight[usize::from(path)] -= bytes;
        self.check();
        bytes
    }

    /// Checks that the accounts balance.
    fn check(&self) {
        for (path, flight) in PathIndex::ALL.into_iter().zip(self.flight) {
            assert_eq!(flight, self.out.flight_of(path), "flight of {path:?}");
        }
        self.out.assert_sound();
    }
}

impl Outbound {
    fn heap_bytes(&self) -> usize {
        self.heap().total()
    }

    /// Compares every sum with its parts.
    fn assert_sound(&self) {
        let Some(busy) = &self.busy else { return };
        let outstanding = &busy.sent.outstanding;
        let records = || outstanding.range(0, usize::MAX);
        let bytes = |state: Option<State>| -> u32 {
            let gone = |r: &Record| matches!(r.state(), State::Abandoned | State::NonRenegableFreed);
            let wanted = |r: &&Record| state.map_or(!gone(r), |s| r.state() == s);
            records().filter(wanted).map(|r| u32::from(r.len)).sum()
        };
        assert_eq!(outstanding.in_flight_bytes(), bytes(Some(State::InFlight)));
        assert_eq!(outstanding.bytes(), bytes(None));
        let marked = records().filter(|r| r.state() == State::Marked).count();
        assert_eq!(outstanding.marked() as usize, marked);
        let acked =
            records().enumerate().filter(|(_, r)| r.state() == State::GapAcked).map(|(index, _)| index);
        let named =
            busy.sent.gaps.runs().iter().flat_map(|run| usize::from(run.start)..=usize::from(run.end));
        let revocable = |index: &usize| {
            let state = outstanding.get(*index).map(Record::state);
            !matches!(state, Some(State::NonRenegable | State::NonRenegableFreed))
        };
        assert!(
            acked.eq(named.filter(revocable)),
            "chunks acknowledged are those that the latest report names"
        );
        let in_blocks = |r: &&Record| {
            matches!(r.state(), State::GapAcked | State::NonRenegable | State::NonRenegableFreed)
        };
        let gap_acked: u32 = records().filter(in_blocks).map(|r| u32::from(r.len)).sum();
        assert_eq!(outstanding.gap_acked_bytes(), gap_acked);
        let unsent = busy.queue.pending_bytes();
        assert_eq!(busy.queue.buffered_bytes(), unsent + outstanding.bytes() as usize);
        assert!(
            (0..outstanding.len())
                .filter(|index| outstanding.get(*index).is_some_and(|r| r.message().is_some()))
                .all(|index| outstanding.chunk(index, &busy.messages).is_some_and(|c| !c.payload.is_empty()))
        );
    }
}

/// Returns bytes that identify their position in the message.
fn message(len: usize) -> Bytes {
    (0..len).map(|i| (i % 251) as u8).collect::<Vec<_>>().into()
}

fn encode_sack(cumulative: Tsn, a_rwnd: u32, blocks: &[GapBlock], duplicates: &[Tsn]) -> Vec<u8> {
    let mut buffer = vec![0; 65_532];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    assert!(sack::write(&mut builder, cumulative, a_rwnd, blocks.iter().copied(), duplicates));
    let len = builder.finish();
    buffer.truncate(len);
    buffer
}

fn decode_sack(bytes: &[u8]) -> Sack<'_> {
    let raw = Packet::parse(bytes).unwrap().chunks().next().unwrap().unwrap();
    let Chunk::Sack(sack) = raw.parse().unwrap() else { panic!("not a SACK") };
    sack
}

/// The fields of `SackOutcome::Applied`.
#[derive(Debug, PartialEq, Eq)]
struct Applied {
    cumulative_advanced: bool,
    newly_acked: bool,
    entered_fast_recovery: bool,
    in_fast_recovery: bool,
    all_acked: bool,
    writable: bool,
}

fn applied(outcome: SackOutcome) -> Applied {
    let SackOutcome::Applied {
        cumulative_advanced,
        newly_acked,
        entered_fast_recovery,
        in_fast_recovery,
        all_acked,
        writable,
        ..
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    Applied { cumulative_advanced, newly_acked, entered_fast_recovery, in_fast_recovery, all_acked, writable }
}
