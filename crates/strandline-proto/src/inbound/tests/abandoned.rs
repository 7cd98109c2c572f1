//! Random traffic of a sender that abandons some messages (RFC 3758): the others arrive exactly once, whole
//! and in order, and nothing is held in the end.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use strandline_wire::chunk::forward_tsn;

use super::model::{Chunks, Fate, fate, traffic};
use super::*;
use crate::inbound::forward::on_forward_tsn;

/// Number of rounds in which chunks may be lost.
const LOSSY_ROUNDS: usize = 12;

impl Rig {
    /// Receives a packet with a FORWARD TSN.
    fn forward(&mut self, last: Tsn, skipped: &BTreeMap<u16, u16>) {
        let mut buffer = vec![0; 65_000];
        let mut packet = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
        let skipped = skipped.iter().map(|(stream, ssn)| (StreamId(*stream), Ssn(*ssn)));
        assert!(forward_tsn::write(&mut packet, last, skipped));
        let len = packet.finish();
        let packet = Packet::parse(&buffer[..len]).unwrap();
        let chunk = packet.chunks().next().unwrap().unwrap();
        let Chunk::ForwardTsn(chunk) = chunk.parse().unwrap() else { panic!("no FORWARD TSN") };
        let point = self.config.partial_delivery_point;
        assert_eq!(on_forward_tsn(&mut self.inbound, &chunk, &mut self.arena, point), Ok(None));
        self.inbound.on_packet_end(self.now, false, &self.config, || self.config.receive_buffer_limit());
    }
}

/// A sender with all that it sends, and the receiver.
struct Run {
    rig: Rig,
    chunks: Chunks,
    /// Numbers of the messages that the sender abandons.
    abandoned: BTreeSet<u32>,
    /// Numbers of the messages that were read.
    read: BTreeSet<u32>,
    /// The latest ordered message that was read of each stream.
    latest: BTreeMap<u16, u32>,
}

impl Run {
    fn is_abandoned(&self, number: usize) -> bool {
        self.abandoned.contains(&self.chunks.all[number].0.ppid.0)
    }

    /// Returns the number of the first chunk that is not acknowledged cumulatively.
    fn next(&self) -> usize {
        self.rig.inbound.cumulative_tsn().next().distance_from(Tsn(self.chunks.first)) as usize
    }

    fn arrive(&mut self, number: usize) {
        let data = self.chunks.data(number);
        let outcome = self.rig.take(&data);
        match outcome {
            DataOutcome::Accepted { .. } | DataOutcome::Duplicate => {}
            DataOutcome::Dropped(DropReason::BufferFull) => {}
            outcome => panic!("{data:?}: {outcome:?}"),
        }
    }

    /// Skips the messages that are abandoned and come next, at most `limit` chunks.
    fn skip(&mut self, limit: usize) {
        let (from, total) = (self.next(), self.chunks.all.len());
        let until = (from..total.min(from.saturating_add(limit))).find(|number| !self.is_abandoned(*number));
        let until = until.unwrap_or(total.min(from.saturating_add(limit)));
        let mut skipped = BTreeMap::new();
        for (header, ..) in &self.chunks.all[from..until] {
            if !header.unordered {
                skipped.insert(header.stream.0, header.ssn.0);
            }
        }
        if until > from {
            self.rig.forward(Tsn(self.chunks.first) + (until as u32 - 1), &skipped);
        }
    }

    fn read(&mut self) {
        while let Some(message) = self.rig.recv() {
            let number = message.ppid.0;
            assert!(message.begins && message.ends && self.read.insert(number), "{number} read twice");
            let sent = self.chunks.all.iter().filter(|(header, ..)| header.ppid.0 == number);
            assert_eq!(sent.flat_map(|(.., payload)| payload).copied().collect::<Vec<u8>>(), message.data);
            if !message.unordered {
                let before = self.latest.insert(message.stream.0, number);
                assert!(before.is_none_or(|before| before < number), "{number} after {before:?}");
            }
        }
    }

    fn run(&mut self, fates: &[Fate], limit: usize) {
        let mut fates = fates.iter().copied().cycle();
        for round in 0..LOSSY_ROUNDS + 200 {
            let lossy = round < LOSSY_ROUNDS;
            for number in self.next()..self.chunks.all.len() {
                // After the first rounds what is abandoned arrives late only.
                let fate = if lossy { fates.next().unwrap() } else { Fate::Arrives };
                match fate {
                    Fate::Arrives if self.is_abandoned(number) && round > 1 => {}
                    Fate::Arrives => self.arrive(number),
                    Fate::Lost => {}
                    Fate::Twice | Fate::Late(_) => {
                        self.arrive(number);
                        self.skip(limit);
                        self.arrive(number);
                    }
                }
            }
            self.skip(if lossy { limit } else { usize::MAX });
            self.read();
            if self.next() == self.chunks.all.len() {
                break;
            }
        }
        assert_eq!(self.next(), self.chunks.all.len());
        let expected = self.chunks.all.iter().map(|(header, ..)| header.ppid.0);
        let expected: BTreeSet<u32> = expected.filter(|number| !self.abandoned.contains(number)).collect();
        assert!(self.read.is_superset(&expected), "{:?} of {expected:?}", self.read);
        assert_eq!(self.rig.inbound.incomplete(), None);
        assert_eq!(self.rig.inbound.buffered_bytes(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_not_abandoned_arrives(
        messages in traffic(),
        fates in prop::collection::vec(fate(), 20..200),
        first in prop_oneof![any::<u32>(), Just(u32::MAX - 40)],
        choices in prop::collection::vec(any::<bool>(), 60),
        limit in 1_usize..40,
    ) {
        let mut rig = Rig::new();
        rig.inbound = Inbound::new(Tsn(first), 1000, rig.config.receive_buffer_start());
        let abandoned = (0..).zip(choices).filter(|(_, abandoned)| *abandoned).map(|(number, _)| number).collect();
        let chunks = Chunks::of(&messages, first);
        let (read, latest) = (BTreeSet::new(), BTreeMap::new());
        Run { rig, chunks, abandoned, read, latest }.run(&fates, limit);
    }
}
