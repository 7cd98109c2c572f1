//! One flight of packets, seen one by one: what A sends when, and what the network does with each transmission.

use core::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use strandline_proto::stats::{AssociationStats, PathStatus};
use strandline_proto::time::Time;
use strandline_sim::pair::Fate;
use strandline_wire::Tsn;

use super::*;

/// The fates of a chunk's transmissions: the first, the second, ...
type Fates = BTreeMap<u32, Vec<Fate>>;

/// An association with a known round-trip time of 60 ms and nothing outstanding. Chunks are counted from 0, the first
/// that is sent from then on; messages fill packets.
pub struct Scene {
    pub pair: Pair,
    pub a: AssociationId,
    pub b: AssociationId,
    /// When the counting began.
    pub began: Time,
    pub first: Tsn,
    fates: Rc<RefCell<Fates>>,
}

/// A packet with DATA of A.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Milliseconds since the counting began.
    pub ms: u64,
    pub at: Duration,
    pub numbers: Vec<u32>,
    /// The I bit.
    pub asks: bool,
}

impl Scene {
    pub fn new(change: impl Fn(&mut AssociationConfig)) -> Self {
        Self::on(link(ms(30), 100), change)
    }

    pub fn on(link: LinkConfig, change: impl Fn(&mut AssociationConfig)) -> Self {
        Self::between(link, change, |_| ())
    }

    /// As `on`, with parameters of B as well.
    pub fn between(
        link: LinkConfig,
        change: impl Fn(&mut AssociationConfig),
        change_b: impl Fn(&mut AssociationConfig),
    ) -> Self {
        let mut pair = Pair::new(endpoint(change), endpoint(change_b), link);
        let (a, b) = pair.connect();
        // The first is acknowledged at once, and so is each pair.
        for count in [1, 2, 2, 2, 2] {
            for _ in 0..count {
                pair.send(Side::A, a, 0, vec![1; FULL]);
            }
            pair.settle();
        }
        pair.recv_all(Side::B, b);
        let (began, first) = (pair.now, Tsn(0));
        let mut scene = Self { pair, a, b, began, first, fates: Rc::default() };
        scene.count_from_now();
        scene
    }

    /// Counts chunks and time from now on; nothing may be outstanding.
    pub fn count_from_now(&mut self) {
        let pair = &mut self.pair;
        let from_a = |captured: &&Captured| captured.from == Side::A;
        let sent = pair.captured().iter().filter(from_a).flat_map(data).map(|data| data.tsn).last();
        let first = sent.expect("data went").next();
        pair.clear_captured();
        pair.clear_filters();
        self.fates = Rc::default();
        let plan = Rc::clone(&self.fates);
        pair.filter(move |from, packet| {
            let tsn = packet.chunks().flatten().find_map(|chunk| match chunk.parse() {
                Ok(Chunk::Data(data)) => Some(data.tsn),
                _ => None,
            });
            let Some(tsn) = tsn.filter(|_| from == Side::A) else { return Fate::Pass };
            let mut plan = plan.borrow_mut();
            let left = plan.get_mut(&tsn.distance_from(first)).filter(|left| !left.is_empty());
            left.map_or(Fate::Pass, |left| left.remove(0))
        });
        (self.began, self.first) = (self.pair.now, first);
    }

    /// Sets what happens to the transmissions of a chunk, in order.
    pub fn fate(&mut self, number: u32, fates: &[Fate]) {
        self.fates.borrow_mut().insert(number, fates.to_vec());
    }

    pub fn give(&mut self, messages: usize) {
        for _ in 0..messages {
            self.pair.send(Side::A, self.a, 0, vec![1; FULL]);
        }
    }

    /// Sends one message with the I bit.
    pub fn ask(&mut self) {
        let (now, info) = (self.pair.now, SendInfo::default().immediate());
        self.pair.a.endpoint.send(now, self.a, info, vec![1; FULL].into()).unwrap();
    }

    /// Lets time pass while B reads.
    pub fn run(&mut self, time: Duration) {
        let b = self.b;
        self.pair.run_until(time, |pair| {
            pair.recv_all(Side::B, b);
            false
        });
    }

    /// Sends as much as possible for `time`, and calls `look` every millisecond.
    pub fn stream_and_look(&mut self, time: Duration, mut look: impl FnMut(&mut Self)) {
        let end = self.pair.now + time;
        while self.pair.now < end {
            let (a, b) = (self.a, self.b);
            stream(&mut self.pair, a, b, ms(1));
            look(self);
        }
    }

    /// Sends as much as possible until `done` returns true.
    pub fn stream_until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        while !done(self) {
            let (a, b) = (self.a, self.b);
            stream(&mut self.pair, a, b, ms(1));
            assert!(self.pair.now.since(self.began) < ms(60_000), "{:?}", self.path());
        }
    }

    /// Returns when cwnd fell while as much as possible was sent for `time`: milliseconds from now on, and cwnd
    /// before and after.
    pub fn falls(&mut self, time: Duration) -> Vec<(u64, u32, u32)> {
        let (began, mut last, mut falls) = (self.pair.now, self.path().cwnd, Vec::new());
        self.stream_and_look(time, |scene| {
            let cwnd = scene.path().cwnd;
            if cwnd < last {
                falls.push((scene.pair.now.since(began).as_millis() as u64, last, cwnd));
            }
            last = cwnd;
        });
        falls
    }

    /// Returns the number of the next chunk that will be sent for the first time.
    pub fn next_number(&self) -> u32 {
        self.sent().iter().flat_map(|seen| seen.numbers.iter()).max().map_or(0, |highest| highest + 1)
    }

    /// Returns all packets with DATA so far.
    pub fn sent(&self) -> Vec<Seen> {
        let first = self.first;
        let seen = |captured: &Captured| {
            let chunks = data(captured);
            let at = captured.at.since(self.began);
            Seen {
                ms: at.as_millis() as u64,
                at,
                numbers: chunks.iter().map(|data| data.tsn.distance_from(first)).collect(),
                asks: chunks.iter().any(|data| data.immediate),
            }
        };
        let from_a = self.pair.captured().iter().filter(|captured| captured.from == Side::A);
        from_a.map(seen).filter(|seen| !seen.numbers.is_empty()).collect()
    }

    /// Returns when each transmission of a chunk was sent, in milliseconds.
    pub fn times(&self, number: u32) -> Vec<u64> {
        self.sent().iter().filter(|seen| seen.numbers.contains(&number)).map(|seen| seen.ms).collect()
    }

    /// Returns the chunks that were retransmitted, each as often as that happened.
    pub fn sent_again(&self) -> Vec<u32> {
        let mut times = BTreeMap::<u32, usize>::new();
        for number in self.sent().into_iter().flat_map(|seen| seen.numbers) {
            *times.entry(number).or_default() += 1;
        }
        times.into_iter().flat_map(|(number, times)| vec![number; times - 1]).collect()
    }

    /// Returns when B's SACKs were sent, in milliseconds.
    pub fn sacks(&self) -> Vec<u64> {
        let is_sack =
            |captured: &&Captured| captured.from == Side::B && captured.chunk_kinds().contains(&kind::SACK);
        let at = |captured: &Captured| captured.at.since(self.began).as_millis() as u64;
        self.pair.captured().iter().filter(is_sack).map(at).collect()
    }

    pub fn stats(&self) -> AssociationStats {
        self.pair.a.endpoint.status(self.a).unwrap().stats
    }

    pub fn path(&self) -> PathStatus {
        self.pair.a.endpoint.paths(self.a).unwrap()[0].clone()
    }

    /// True if everything has arrived and been acknowledged.
    pub fn all_is_acknowledged(&self) -> bool {
        self.pair.a.endpoint.status(self.a).unwrap().send_buffered == 0
    }
}

/// Converts bytes to packets of FULL bytes.
pub fn packets(bytes: u32) -> u32 {
    bytes / (FULL as u32 + 16)
}
