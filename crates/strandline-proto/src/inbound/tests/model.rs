//! Random traffic against a naive model: messages of several streams, ordered and unordered, cut into random
//! fragments, lost, duplicated and reordered. Everything arrives exactly once, whole and in order, and each SACK is
//! correct.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
pub(super) struct Sent {
    stream: u16,
    unordered: bool,
    /// Lengths of its fragments.
    fragments: Vec<usize>,
}

pub(super) fn traffic() -> impl Strategy<Value = Vec<Sent>> {
    let stream = prop_oneof![4 => 0_u16..3, 1 => Just(70), 1 => Just(999)];
    let length = prop_oneof![3 => 1_usize..40, 1 => 1000_usize..1400];
    let message = (stream, prop::bool::weighted(0.3), prop::collection::vec(length, 1..8));
    prop::collection::vec(
        message.prop_map(|(stream, unordered, fragments)| Sent { stream, unordered, fragments }),
        1..60,
    )
}

/// What the sender does with each chunk that is still missing, in the order of a generated list.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    Arrives,
    Lost,
    Twice,
    /// Overtaken by this many chunks.
    Late(usize),
}

pub(super) fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        5 => Just(Fate::Arrives),
        2 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        2 => (1_usize..30).prop_map(Fate::Late),
    ]
}

/// The chunks of all messages, with their bytes.
pub(super) struct Chunks {
    pub(super) first: u32,
    /// Header, flags (beginning, ending) and payload of each chunk, TSNs counting from `first`.
    pub(super) all: Vec<(Header, bool, bool, Vec<u8>)>,
    /// The whole messages in sending order, by stream and order.
    expected: BTreeMap<(u16, bool), VecDeque<Vec<u8>>>,
}

impl Chunks {
    pub(super) fn of(messages: &[Sent], first: u32) -> Self {
        let mut chunks = Self { first, all: Vec::new(), expected: BTreeMap::new() };
        let mut next_ssn: BTreeMap<u16, u16> = BTreeMap::new();
        for (number, sent) in messages.iter().enumerate() {
            let ssn = next_ssn.entry(sent.stream).or_default();
            let header = Header {
                stream: StreamId(sent.stream),
                ssn: if sent.unordered { Ssn(0) } else { Ssn(*ssn) },
                ppid: Ppid(number as u32),
                unordered: sent.unordered,
            };
            *ssn += u16::from(!sent.unordered);
            let mut bytes = Vec::new();
            for (place, &len) in sent.fragments.iter().enumerate() {
                let payload: Vec<u8> = (0..len).map(|at| (number * 31 + bytes.len() + at) as u8).collect();
                bytes.extend_from_slice(&payload);
                chunks.all.push((header, place == 0, place + 1 == sent.fragments.len(), payload));
            }
            chunks.expected.entry((sent.stream, sent.unordered)).or_default().push_back(bytes);
        }
        chunks
    }

    pub(super) fn data(&self, number: usize) -> Data<'_> {
        let (header, beginning, ending, payload) = &self.all[number];
        Data {
            tsn: Tsn(self.first.wrapping_add(number as u32)),
            stream: header.stream,
            ssn: header.ssn,
            ppid: header.ppid,
            unordered: header.unordered,
            beginning: *beginning,
            ending: *ending,
            immediate: false,
            payload,
        }
    }
}

/// The receiver and the expected state.
struct Model {
    rig: Rig,
    chunks: Chunks,
    come: BTreeSet<usize>,
    duplicates: Vec<u32>,
    /// Parts of a message that was partly delivered.
    part: Option<Vec<u8>>,
}

impl Model {
    fn new(messages: &[Sent], first: u32, config: AssociationConfig) -> Self {
        let mut rig = Rig::with(config);
        rig.inbound = Inbound::new(Tsn(first), 1000, rig.config.receive_buffer_start());
        let chunks = Chunks::of(messages, first);
        Self { rig, chunks, come: BTreeSet::new(), duplicates: Vec::new(), part: None }
    }

    fn arrive(&mut self, number: usize) {
        let data = self.chunks.data(number);
        let held = self.rig.inbound.buffered_bytes();
        match self.rig.take(&data) {
            DataOutcome::Accepted { .. } => {
                assert!(self.come.insert(number), "{number} taken twice");
                self.forget_reneged(number, held);
            }
            DataOutcome::Duplicate => {
                assert!(self.come.contains(&number));
                self.duplicates.push(data.tsn.0);
            }
            DataOutcome::Dropped(DropReason::BufferFull) => {
                assert!(self.rig.inbound.buffered_bytes() > 0, "dropped by an empty buffer");
                assert!(!self.come.contains(&number));
            }
            outcome => panic!("{data:?}: {outcome:?}"),
        }
    }

    /// Forgets what a full buffer dropped for this chunk.
    fn forget_reneged(&mut self, number: usize, held: u32) {
        let before = self.come.len();
        let Self { come, rig, chunks, .. } = self;
        come.retain(|&come| {
            let tsn = Tsn(chunks.first.wrapping_add(come as u32));
            let kept = rig.inbound.map.contains(tsn);
            assert!(kept || come > number, "{come} is missing again for {number}");
            kept
        });
        let full = held >= 2 * rig.config.receive_buffer_start();
        assert!(full || self.come.len() == before, "dropped with room left");
    }

    fn check_sack(&mut self) {
        let told = self.rig.sack();
        let cumulative = (0..).find(|number| !self.come.contains(number)).unwrap();
        assert_eq!(told.cumulative, self.chunks.first.wrapping_add(cumulative as u32).wrapping_sub(1));
        let mut gaps: Vec<(u16, u16)> = Vec::new();
        for &number in self.come.range(cumulative..) {
            let offset = (number + 1 - cumulative) as u16;
            match gaps.last_mut() {
                Some((_, end)) if *end + 1 == offset => *end = offset,
                _ => gaps.push((offset, offset)),
            }
        }
        assert_eq!(told.gaps, gaps);
        self.duplicates.truncate(32);
        assert_eq!(told.duplicates, core::mem::take(&mut self.duplicates));
        assert!(told.a_rwnd <= self.rig.config.receive_buffer_start());
    }

    fn read(&mut self) {
        while let Some(message) = self.rig.recv() {
            assert_eq!(message.begins, self.part.is_none() || message.ends && message.begins);
            let mut bytes =
                if message.begins { Vec::new() } else { self.part.take().expect("a part before") };
            bytes.extend_from_slice(&message.data);
            if !message.ends {
                self.part = Some(bytes);
                continue;
            }
            let waiting = self.chunks.expected.get_mut(&(message.stream.0, message.unordered)).unwrap();
            let place = if message.unordered {
                waiting.iter().position(|expected| *expected == bytes).expect("a message that was sent")
            } else {
                0
            };
            assert_eq!(waiting.remove(place).expect("as many as were sent"), bytes);
        }
    }

    /// Sends everything missing, round after round, until everything has arrived.
    fn run(&mut self, fates: &[Fate], read_every: usize) {
        let mut fates = fates.iter().copied().cycle();
        let total = self.chunks.all.len();
        for round in 0..400 {
            let mut late: Vec<(usize, usize)> = Vec::new();
            for number in (0..total).filter(|number| !self.come.contains(number)).collect::<Vec<_>>() {
                // After many rounds nothing is lost any more, so that the run ends.
                match if round < 20 { fates.next().unwrap() } else { Fate::Arrives } {
                    Fate::Arrives => self.arrive(number),
                    Fate::Lost => {}
                    Fate::Twice => {
                        self.arrive(number);
                        self.arrive(number);
                    }
                    Fate::Late(by) => late.push((number + by, number)),
                }
                for (_, number) in late.extract_if(.., |(at, _)| *at <= number).collect::<Vec<_>>() {
                    self.arrive(number);
                }
                if number % 3 == 0 {
                    self.check_sack();
                }
                if number % read_every == 0 {
                    self.read();
                }
            }
            self.check_sack();
            self.read();
            if self.come.len() == total {
                break;
            }
        }
        assert_eq!(self.come.len(), total, "everything has come");
        assert!(self.chunks.expected.values().all(VecDeque::is_empty), "everything was read");
        assert!(self.part.is_none());
        assert_eq!(self.rig.inbound.buffered_bytes(), 0);
        self.check_sack();
        self.rig.inbound.release_idle();
        let inbound = &self.rig.inbound;
        assert_eq!(inbound.heap_bytes(), inbound.memory().ordering, "only the numbers of streams are left");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn exactly_once_whole_and_in_order(
        messages in traffic(),
        fates in prop::collection::vec(fate(), 20..200),
        first in prop_oneof![any::<u32>(), Just(u32::MAX - 40)],
        read_every in 1_usize..50,
    ) {
        Model::new(&messages, first, AssociationConfig::default()).run(&fates, read_every);
    }

    /// A buffer that is always full, and messages that are delivered in parts.
    #[test]
    fn a_small_buffer_loses_nothing(
        messages in traffic(),
        fates in prop::collection::vec(fate(), 20..200),
        first in any::<u32>(),
        read_every in 1_usize..50,
        receive_buffer in 1500_u32..6000,
        partial_delivery_point in 500_u32..6000,
    ) {
        let partial_delivery_point = partial_delivery_point.min(receive_buffer);
        let config = AssociationConfig { receive_buffer: Some(receive_buffer), partial_delivery_point, ..AssociationConfig::default() };
        Model::new(&messages, first, config).run(&fates, read_every);
    }
}
