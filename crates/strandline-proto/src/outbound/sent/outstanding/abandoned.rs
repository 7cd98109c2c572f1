//! Chunks that were abandoned (RFC 3758). Their records say which messages the peer must skip.

use super::{CHUNKS_MAX, ENDING, Outstanding, Record, State};
use crate::number::{Ssn, StreamId, Tsn};
use crate::outbound::messages::MessageKey;
use crate::path_index::PathIndex;

/// Of an abandoned chunk: its message was ordered. Such a chunk is never retransmitted, so the bit is free.
const ORDERED: u8 = super::FAST_RETRANSMITTED;

/// The place of an abandoned message in its stream; `None` if it was unordered.
pub(crate) type Skipped = Option<(StreamId, Ssn)>;

impl Record {
    /// Returns the message of a chunk, unless it was abandoned or has left as a whole.
    pub(crate) fn message(&self) -> Option<MessageKey> {
        (!matches!(self.state, State::Abandoned | State::NonRenegableFreed)).then_some(self.message)
    }

    fn forget_message(&mut self, skipped: Skipped) {
        self.message = MessageKey::NONE;
        self.clear(ENDING | ORDERED);
        if let Some((stream, ssn)) = skipped {
            self.offset = u32::from(stream.0) << 16 | u32::from(ssn.0);
            self.set(ORDERED);
        }
    }

    fn skipped(&self) -> Skipped {
        let ssn = Ssn((self.offset & 0xffff) as u16);
        self.has(ORDERED).then_some((StreamId((self.offset >> 16) as u16), ssn))
    }
}

impl Outstanding {
    /// Gives a chunk up, of a message that is removed. Returns the record as it was.
    pub(crate) fn abandon(&mut self, index: usize, skipped: Skipped) -> Option<Record> {
        let before = self.change(index, State::Abandoned)?;
        self.records.get_mut(index)?.forget_message(skipped);
        Some(before)
    }

    /// Assigns a TSN to the rest of a message that is abandoned, so that there is one to skip: the peer may
    /// have all of it that was sent. Returns false if too much is outstanding.
    pub(crate) fn push_abandoned(&mut self, skipped: Skipped) -> bool {
        if self.records.len() >= CHUNKS_MAX {
            return false;
        }
        let path = self.records.back().map_or(PathIndex::FIRST, |last| last.path);
        let (message, state) = (MessageKey::NONE, State::Abandoned);
        let mut record = Record { message, offset: 0, len: 0, state, path, misses: 0, flags: 0, resent: 0 };
        record.forget_message(skipped);
        self.records.push_back(record);
        true
    }

    /// Returns the number of abandoned chunks before the first other one, at most `max`.
    pub(crate) fn abandoned_first(&self, max: usize) -> usize {
        self.records.iter().take(max).take_while(|record| record.state == State::Abandoned).count()
    }

    /// Returns the TSNs of these with the places of their messages.
    pub(crate) fn skipped(&self, count: usize) -> impl Iterator<Item = (Tsn, Skipped)> {
        (0..).map(|index| self.tsn(index)).zip(self.records.iter().take(count).map(Record::skipped))
    }

    /// Returns how often chunks were marked so far, wrapping.
    pub(crate) fn marks(&self) -> u32 {
        self.marks
    }

    /// Returns the chunks that are marked for retransmission, without those of tail-loss probes, with their indices.
    pub(crate) fn lost(&mut self) -> impl Iterator<Item = (usize, &Record)> {
        let from = self.first_marked().unwrap_or(self.records.len());
        let records = (from..).zip(self.records.range(from..));
        records.filter(|(_, record)| record.state == State::Marked && !record.has(super::PROBE))
    }
}
