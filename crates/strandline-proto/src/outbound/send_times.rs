//! When outstanding chunks were sent for the first time: a mark for each moment, not one for each chunk.

use std::collections::VecDeque;

use crate::number::Tsn;
use crate::time::Time;

/// From this TSN up to the next mark's all were sent at this moment.
#[derive(Debug, Clone, Copy)]
struct Mark {
    from: Tsn,
    at: Time,
}

/// What a round-trip time can be measured by.
#[derive(Debug, Default)]
pub(super) struct SendTimes {
    /// In the order of both TSN and time.
    marks: VecDeque<Mark>,
}

impl SendTimes {
    /// The chunk was sent for the first time; it is the highest of all.
    #[inline]
    pub(super) fn on_sent(&mut self, tsn: Tsn, at: Time) {
        if self.marks.back().is_none_or(|last| last.at != at) {
            self.marks.push_back(Mark { from: tsn, at });
        }
    }

    /// When an outstanding chunk was sent; none if that measures nothing any more.
    pub(super) fn of(&self, tsn: Tsn) -> Option<Time> {
        let first = self.marks.front()?.from;
        if tsn.is_before(first) {
            return None;
        }
        let distance = tsn.distance_from(first);
        let after = self.marks.partition_point(|mark| mark.from.distance_from(first) <= distance);
        self.marks.get(after.checked_sub(1)?).map(|mark| mark.at)
    }

    /// `first` is now the lowest TSN outstanding.
    pub(super) fn advance(&mut self, first: Tsn) {
        while self.marks.get(1).is_some_and(|second| first.is_at_or_after(second.from)) {
            self.marks.pop_front();
        }
    }

    /// A chunk was sent again: no chunk outstanding gives a round-trip time any more, itself least of all. Section
    /// 6.3.1 C5 would allow those below it; leaving them out costs a few samples and saves a look at each.
    pub(super) fn forget(&mut self) {
        self.marks.clear();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.marks.capacity() * size_of::<Mark>()
    }
}

#[cfg(test)]
mod tests;
