//! Read-only queries of outstanding chunks.

use super::{CHUNKS_MAX, Outstanding, RESENT, Record, State};
use crate::number::Tsn;
use crate::path_index::PathIndex;
use crate::time::Time;

impl Outstanding {
    /// Returns the chunk's index, if it was last sent as entry `number` of the log and is neither acknowledged nor
    /// declared lost since.
    pub(crate) fn index_sent_as(&self, tsn: Tsn, number: u16) -> Option<usize> {
        let index = self.index_of(tsn)?;
        let record = self.records.get(index)?;
        let open = matches!(record.state, State::InFlight | State::Overdue);
        let is = record.has(RESENT) && record.resent == number && open;
        is.then_some(index)
    }

    /// True if chunks last sent on the path left the flight unacknowledged and unmarked.
    pub(crate) fn has_overdue(&self, path: PathIndex) -> bool {
        self.overdue[path] > 0
    }

    /// Returns the TSN of a record.
    pub(crate) fn tsn(&self, index: usize) -> Tsn {
        self.first + index as u32
    }

    /// Returns the bytes of the records acknowledged by gap blocks.
    pub(crate) fn gap_acked_bytes(&self) -> u32 {
        self.gap_acked_bytes
    }

    /// Returns when a record was first sent, if that is useful: as a round-trip time with miss indications only while
    /// nothing was retransmitted, by time only if the chunk itself was not.
    pub(crate) fn sent_at(&self, index: usize) -> Option<Time> {
        self.times.of(self.tsn(index))
    }

    /// Returns the only path that anything outstanding was sent on; `None` if there are several, or none.
    pub(crate) fn only_path(&self) -> Option<PathIndex> {
        self.paths.only()
    }

    /// True if the chunk may have arrived long before a SACK had room to report it, so that it measures no round-trip
    /// time.
    pub(crate) fn is_unreported(&self, index: usize) -> bool {
        let tsn = self.tsn(index);
        self.unnamed.is_some_and(|(named, next)| tsn.is_after(named) && tsn.is_before(next))
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Record> {
        self.records.get(index)
    }

    /// Returns the records from `start` to before `end`.
    pub(crate) fn range(&self, start: usize, end: usize) -> impl Iterator<Item = &Record> {
        let end = end.min(self.records.len());
        self.records.range(start.min(end)..end)
    }

    /// Returns the index of a TSN, if it is outstanding.
    pub(crate) fn index_of(&self, tsn: Tsn) -> Option<usize> {
        let index = tsn.distance_from(self.first) as usize;
        (index < self.records.len()).then_some(index)
    }

    #[inline]
    pub(crate) fn next_tsn(&self) -> Tsn {
        self.first + self.records.len() as u32
    }

    /// Returns the Cumulative TSN Ack Point.
    pub(crate) fn cumulative_ack(&self) -> Tsn {
        self.first.previous()
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.records.len() >= CHUNKS_MAX
    }

    pub(crate) fn in_flight_bytes(&self) -> u32 {
        self.in_flight_bytes
    }

    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    #[inline]
    pub(crate) fn marked(&self) -> u32 {
        self.marked
    }

    pub(crate) fn record_heap_bytes(&self) -> usize {
        self.records.capacity() * size_of::<Record>() + self.times.heap_bytes()
    }
}
