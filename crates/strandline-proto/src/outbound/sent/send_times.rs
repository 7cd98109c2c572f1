//! When outstanding chunks were first sent: one mark for each instant, not for each chunk.

use std::collections::VecDeque;

use crate::number::Tsn;
use crate::time::Time;

/// All chunks from this TSN up to the next mark's were sent at this instant.
#[derive(Debug, Clone, Copy)]
struct Mark {
    from: Tsn,
    at: Time,
}

/// The times that can measure a round trip.
#[derive(Debug, Default)]
pub(crate) struct SendTimes {
    /// Marks in the order of both TSN and time.
    marks: VecDeque<Mark>,
}

impl SendTimes {
    /// Records that the chunk was first sent; it is the highest of all.
    #[inline]
    pub(crate) fn on_sent(&mut self, tsn: Tsn, at: Time) {
        if self.marks.back().is_none_or(|last| last.at != at) {
            self.marks.push_back(Mark { from: tsn, at });
        }
    }

    /// Returns when an outstanding chunk was sent; `None` if that measures nothing any more.
    pub(crate) fn of(&self, tsn: Tsn) -> Option<Time> {
        let first = self.marks.front()?.from;
        if tsn.is_before(first) {
            return None;
        }
        let distance = tsn.distance_from(first);
        let after = self.marks.partition_point(|mark| mark.from.distance_from(first) <= distance);
        self.marks.get(after.checked_sub(1)?).map(|mark| mark.at)
    }

    /// Records that `first` is now the lowest outstanding TSN.
    pub(crate) fn advance(&mut self, first: Tsn) {
        while self.marks.get(1).is_some_and(|second| first.is_at_or_after(second.from)) {
            self.marks.pop_front();
        }
    }

    /// Forgets all times after a retransmission: no outstanding chunk measures a round-trip time any more. Section
    /// 6.3.1 C5 would allow those below it; omitting them costs a few samples and saves examining each.
    pub(crate) fn forget(&mut self) {
        self.marks.clear();
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.marks.capacity() * size_of::<Mark>()
    }
}

#[cfg(test)]
mod tests;
