//! When chunks were sent again: an entry for each such transmission, in the order of time.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::number::Tsn;
use crate::time::Time;

/// Entries at most: the oldest make room, and their chunks are left to T3-rtx. Numbers of entries are 16 bits.
const ENTRIES_MAX: usize = 1 << 14;

#[derive(Debug, Clone, Copy)]
struct Entry {
    tsn: Tsn,
    at: Time,
}

/// The log. A chunk's record holds the number of its latest entry; earlier ones of the same chunk are stale.
#[derive(Debug, Default)]
pub(super) struct ResentLog {
    entries: VecDeque<Entry>,
    /// Number of the first entry. Records hold numbers modulo 2^16.
    first: u64,
}

impl ResentLog {
    /// A chunk is sent again: the number of the new entry.
    pub(super) fn push(&mut self, tsn: Tsn, at: Time) -> u16 {
        if self.entries.len() >= ENTRIES_MAX {
            self.pop();
        }
        let number = self.next() as u16;
        self.entries.push_back(Entry { tsn, at });
        number
    }

    /// Number of the next entry.
    pub(super) fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The whole number of an entry, of which a record holds the lower bits: the latest that has them. The entry itself may have made
    /// room, or be of no use any more.
    pub(super) fn whole(&self, number: u16) -> u64 {
        let last = self.next().saturating_sub(1);
        last.saturating_sub(u64::from((last as u16).wrapping_sub(number)))
    }

    /// When that was.
    pub(super) fn at(&self, number: u16) -> Option<Time> {
        self.entries.get(usize::from(number.wrapping_sub(self.first as u16))).map(|entry| entry.at)
    }

    /// Number, TSN and time of the entry at a place, the oldest at 0.
    pub(super) fn entry(&self, place: usize) -> Option<(u16, Tsn, Time)> {
        self.entries.get(place).map(|entry| ((self.first + place as u64) as u16, entry.tsn, entry.at))
    }

    /// Lets the oldest entries go that are of no use any more.
    pub(super) fn prune(&mut self, is_used: impl Fn(Tsn, u16) -> bool) {
        while self.entry(0).is_some_and(|(number, tsn, _)| !is_used(tsn, number)) {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if self.entries.pop_front().is_some() {
            self.first += 1;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}
