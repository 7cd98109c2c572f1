//! The lowest outstanding chunk of each path, whose acknowledgement restarts T3-rtx (RFC 9260 section 6.3.2
//! R3). Thousands of chunks of other paths may lie before it, so the search goes on where it last ended.

use super::outstanding::Outstanding;
use crate::number::Tsn;
use crate::path_index::{PathIndex, PerPath};

/// Maximum number of chunks examined for each path at a SACK. A search that needs more goes on at the next one.
const LOOKED_AT_MAX: usize = 512;

/// For each path the TSN below which nothing is outstanding that was last sent there.
#[derive(Debug)]
pub(crate) struct Lowest(PerPath<Tsn>);

impl Lowest {
    /// `first` is the next TSN of a window in which nothing is outstanding.
    pub(crate) fn new(first: Tsn) -> Self {
        Self(PerPath::filled(first))
    }

    /// Records that the chunk is outstanding on the path (again).
    pub(crate) fn on_outstanding(&mut self, path: PathIndex, tsn: Tsn) {
        let from = &mut self.0[path];
        if tsn.is_before(*from) {
            *from = tsn;
        }
    }

    /// Records that the chunks of a path have moved to another one.
    pub(crate) fn on_moved(&mut self, from: PathIndex, to: PathIndex) {
        self.on_outstanding(to, self.0[from]);
    }

    /// Calls [`find`](Self::find) for each path of which chunks are `acked`. The others get `usize::MAX`.
    pub(crate) fn find_all(
        &mut self,
        outstanding: &Outstanding,
        acked: &PerPath<usize>,
        below: usize,
    ) -> PerPath<usize> {
        let mut found = PerPath::filled(usize::MAX);
        for path in PathIndex::ALL.into_iter().filter(|path| acked[*path] != usize::MAX) {
            found[path] = self.find(outstanding, path, below);
        }
        found
    }

    /// Returns the index of the path's lowest outstanding chunk if it is below `below`, `usize::MAX` if there
    /// is none, and 0 if it was not found yet: it is then unknown whether the lowest was acknowledged.
    pub(crate) fn find(&mut self, outstanding: &Outstanding, path: PathIndex, below: usize) -> usize {
        let from = &mut self.0[path];
        let first = outstanding.tsn(0);
        if from.is_before(first) {
            *from = first;
        }
        let start = from.distance_from(first) as usize;
        let end = below.min(outstanding.len()).min(start.saturating_add(LOOKED_AT_MAX));
        for (index, record) in (start..end).zip(outstanding.range(start, end)) {
            if record.path == path && !record.is_done() {
                *from = outstanding.tsn(index);
                return index;
            }
        }
        if end > start {
            *from = outstanding.tsn(end);
        }
        if end >= below.min(outstanding.len()) { usize::MAX } else { 0 }
    }
}

#[cfg(test)]
mod tests;
