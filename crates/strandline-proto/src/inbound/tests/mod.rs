#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod abandoned;
mod acknowledge;
mod buffer;
mod deliver;
mod fragments;
mod i_data;
mod i_data_model;
mod memory;
mod model;
mod nr_report;
mod renege;

use strandline_wire::{Chunk, Data, Packet, VerificationTag};

use super::reassembly::Header;
use super::receive::DropReason;
use super::window::HELD_COST;
use super::*;
use crate::number::{Ppid, Ssn, StreamId};

const NOW: Time = Time::from_nanos(1_000_000_000);

/// TSN of the first chunk in these tests.
const FIRST: u32 = 100;

const ACCEPTED: DataOutcome = DataOutcome::Accepted { readable: false };
const READABLE: DataOutcome = DataOutcome::Accepted { readable: true };

/// A receiving half with everything that it needs.
struct Rig {
    inbound: Inbound,
    arena: Arena,
    config: AssociationConfig,
    now: Time,
}

impl Inbound {
    /// Returns the heap bytes of every kind.
    fn heap_bytes(&self) -> usize {
        let memory = self.memory();
        memory.tsn_map + memory.records() + memory.payload
    }
}

/// The contents of a SACK.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    cumulative: u32,
    a_rwnd: u32,
    gaps: Vec<(u16, u16)>,
    duplicates: Vec<u32>,
}

/// Whole messages and fragments of stream 0, which tests change by struct update.
fn whole(tsn: u32, ssn: u16, payload: &[u8]) -> Data<'_> {
    Data { ppid: Ppid(7), ..Data::whole(Tsn(tsn), StreamId(0), Ssn(ssn), payload) }
}

fn begin(tsn: u32, ssn: u16, payload: &[u8]) -> Data<'_> {
    Data { ending: false, ..whole(tsn, ssn, payload) }
}

fn middle(tsn: u32, ssn: u16, payload: &[u8]) -> Data<'_> {
    Data { beginning: false, ending: false, ..whole(tsn, ssn, payload) }
}

fn end(tsn: u32, ssn: u16, payload: &[u8]) -> Data<'_> {
    Data { beginning: false, ..whole(tsn, ssn, payload) }
}

fn on_stream(stream: u16, data: Data<'_>) -> Data<'_> {
    Data { stream: StreamId(stream), ..data }
}

fn unordered(data: Data<'_>) -> Data<'_> {
    Data { unordered: true, ssn: Ssn(0xbeef), ..data }
}

impl Rig {
    fn new() -> Self {
        Self::with(AssociationConfig::default())
    }

    fn with_buffer(receive_buffer: u32) -> Self {
        let partial_delivery_point = receive_buffer / 2;
        Self::with(AssociationConfig {
            receive_buffer: Some(receive_buffer),
            partial_delivery_point,
            ..AssociationConfig::default()
        })
    }

    fn with(config: AssociationConfig) -> Self {
        let inbound = Inbound::new(Tsn(FIRST), 1000, config.receive_buffer_start());
        Self { inbound, arena: Arena::default(), config, now: NOW }
    }

    /// Receives a packet with one chunk.
    fn take(&mut self, data: &Data<'_>) -> DataOutcome {
        let outcome = self.inbound.on_data(data, &mut self.arena, self.config.partial_delivery_point);
        self.inbound.on_packet_end(self.now, false, &self.config, || self.config.receive_buffer_limit());
        outcome
    }

    fn sack_due(&self) -> bool {
        self.inbound.sack_due(self.now)
    }

    fn sack(&mut self) -> Told {
        self.sack_within(1452)
    }

    /// Writes a SACK into a packet of `limit` bytes and parses it.
    fn sack_within(&mut self, limit: usize) -> Told {
        let mut buffer = vec![0; limit];
        let mut packet = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
        assert!(self.inbound.write_sack(self.now, &mut packet, usize::MAX, false));
        let len = packet.finish();
        let packet = Packet::parse(&buffer[..len]).unwrap();
        let chunk = packet.chunks().next().unwrap().unwrap();
        let Chunk::Sack(sack) = chunk.parse().unwrap() else { panic!("no SACK") };
        Told {
            cumulative: sack.cumulative_tsn().0,
            a_rwnd: sack.a_rwnd(),
            gaps: sack.gap_blocks().map(|block| (block.start, block.end)).collect(),
            duplicates: sack.duplicates().map(|tsn| tsn.0).collect(),
        }
    }

    fn recv(&mut self) -> Option<Message> {
        self.inbound.recv()
    }

    /// Returns all messages that can be read now, as text.
    fn texts(&mut self) -> Vec<String> {
        core::iter::from_fn(|| self.recv())
            .map(|message| String::from_utf8(message.data.to_vec()).unwrap())
            .collect()
    }
}

fn is_violation(outcome: DataOutcome) -> bool {
    matches!(outcome, DataOutcome::Violation(_))
}
