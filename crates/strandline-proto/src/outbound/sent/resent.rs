//! A log of retransmissions: one entry for each, in the order of time.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::number::Tsn;
use crate::time::Time;

/// Records store this many numbers. With as many later entries an entry is ambiguous, and its chunk is left to
/// T3-rtx.
const NUMBERS: u64 = 1 << 16;

/// With fewer entries, stale ones behind a useful one are not searched for.
const ENTRIES_FEW: usize = 1 << 10;

#[derive(Debug, Clone, Copy)]
struct Entry {
    tsn: Tsn,
    /// Its number, modulo 2^32.
    number: u32,
    at: Time,
}

/// The log. A chunk's record contains the number of its latest entry; earlier ones of the same chunk are stale.
#[derive(Debug, Default)]
pub(crate) struct ResentLog {
    /// Entries in the order of numbers, which is that of time.
    entries: VecDeque<Entry>,
    /// Number of the next entry.
    next: u64,
    /// Number of entries at which all stale ones are removed.
    crowded_at: usize,
}

impl ResentLog {
    /// Records that a chunk is retransmitted. Returns the number of the new entry.
    pub(crate) fn push(&mut self, tsn: Tsn, at: Time) -> u16 {
        let number = self.next;
        self.next += 1;
        while self.entries.front().is_some_and(|first| self.age(first.number) > NUMBERS) {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry { tsn, number: number as u32, at });
        number as u16
    }

    /// Returns the number of the next entry.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number of entries since that of this number, including itself.
    fn age(&self, number: u32) -> u64 {
        u64::from((self.next as u32).wrapping_sub(number))
    }

    /// Returns the whole number of an entry, of which a record contains the lower bits: the latest that has them. The
    /// entry itself may have been removed.
    pub(crate) fn whole(&self, number: u16) -> u64 {
        let last = self.next.saturating_sub(1);
        last.saturating_sub(u64::from((last as u16).wrapping_sub(number)))
    }

    /// Returns when that retransmission was sent.
    pub(crate) fn at(&self, number: u16) -> Option<Time> {
        let age = self.next - self.whole(number);
        let place = self.entries.partition_point(|entry| self.age(entry.number) > age);
        self.entries.get(place).filter(|entry| self.age(entry.number) == age).map(|entry| entry.at)
    }

    /// Returns number, TSN and time of the entry at an index, the oldest at 0.
    pub(crate) fn entry(&self, place: usize) -> Option<(u16, Tsn, Time)> {
        self.entries.get(place).map(|entry| (entry.number as u16, entry.tsn, entry.at))
    }

    /// Removes the oldest stale entries, and all stale ones whenever there are twice as many entries as were left the
    /// last time, so that one chunk that is retransmitted in vain keeps no others.
    pub(crate) fn prune(&mut self, is_used: impl Fn(Tsn, u16) -> bool) {
        while self.entry(0).is_some_and(|(number, tsn, _)| !is_used(tsn, number)) {
            self.entries.pop_front();
        }
        if self.entries.len() >= self.crowded_at.max(ENTRIES_FEW) {
            self.entries.retain(|entry| is_used(entry.tsn, entry.number as u16));
            self.crowded_at = self.entries.len() * 2;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}
