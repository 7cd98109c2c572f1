//! Gap Ack Blocks (RFC 9260 section 3.3.4), normalised and compared with those of the previous SACK.
//!
//! Comparing the two lists finds newly acknowledged and revoked chunks without looking at the chunks in both: the
//! work is bounded by the number of blocks and of chunks whose state changes. A peer may write blocks in any order,
//! overlapping or inverted; only the set of TSNs in them counts.
//!
//! A SACK has room for a limited number of blocks. One with many of them may omit what does not fit: chunks that an
//! earlier SACK reported beyond its last block are not revoked by that, except in strict RFC 9260 mode, which makes
//! no such distinction (section 6.2.1 D iii).
//!
//! SACKs overtake each other. One with the Cumulative TSN Ack of the previous SACK may be older, so what it omits is
//! not revoked: its blocks are added to those known. Only a higher Cumulative TSN Ack shows that a SACK is newer.

use strandline_wire::GapBlock;

use crate::number::Tsn;

/// Indices of outstanding chunks, from 0 for the one after the Cumulative TSN Ack Point, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) start: u16,
    pub(crate) end: u16,
}

/// The gap acknowledgements since the latest SACK that was certainly newer than all before, and memory for the next
/// one's.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// Sorted, neither overlapping nor adjacent.
    current: Vec<Run>,
    previous: Vec<Run>,
    /// True if the latest SACK reported nothing that was not known: `current` is unchanged, and `previous` is empty.
    unchanged: bool,
    /// Maximum number of blocks in a SACK, among the latest ones with many blocks and among those before. The room in
    /// a packet may shrink.
    blocks_max: [usize; 2],
    /// Number of such SACKs in the latest group.
    many: u16,
    /// The highest index that the latest SACK reported, if it was full: it is unknown when chunks beyond it arrived.
    cut_at: Option<usize>,
    /// `cut_at` of the previous SACK.
    previous_cut_at: Option<usize>,
}

/// Number of blocks beyond which the memory is freed once there is no gap: only hostile peers or very bad networks
/// need so many.
const KEPT: usize = 256;

/// Number of blocks from which on a SACK may have been full: Linux's SCTP sends no more, others as many as a packet
/// holds.
const MAY_BE_ALL: usize = 16;

/// A SACK counts as full if it has as many blocks as the longest one, or fewer by less than this fraction.
const FULL_DIVISOR: usize = 16;

/// Number of SACKs with many blocks in each group of `blocks_max`.
const LATEST: u16 = 1 << 10;

impl Gaps {
    /// Returns the highest index in well-formed blocks.
    pub(crate) fn highest(blocks: impl Iterator<Item = GapBlock>) -> Option<usize> {
        blocks.filter_map(to_run).map(|run| usize::from(run.end)).max()
    }

    /// Advances the Cumulative TSN Ack Point by `steps`.
    pub(crate) fn advance(&mut self, steps: usize) {
        if steps == 0 || self.current.is_empty() {
            return;
        }
        let steps = u16::try_from(steps).unwrap_or(u16::MAX);
        self.current.retain_mut(|run| {
            let kept = run.end >= steps;
            run.start = run.start.saturating_sub(steps);
            run.end = run.end.saturating_sub(steps);
            kept
        });
    }

    /// Replaces the blocks by those of a SACK, and keeps the old ones as the previous report. With `may_be_cut`, a
    /// SACK with many blocks may have had no room for more. With `may_be_old`, it may have been sent before the
    /// previous one, which has the same cumulative TSN: then its blocks are added. But if the chunk after that TSN was
    /// reported, the peer has revoked that one in any case, and all blocks are replaced.
    pub(crate) fn replace(
        &mut self,
        blocks: impl Iterator<Item = GapBlock>,
        may_be_cut: bool,
        may_be_old: bool,
    ) {
        self.previous_cut_at = self.cut_at.take();
        let new = &mut self.previous;
        new.clear();
        let mut sorted = true;
        for run in blocks.filter_map(to_run) {
            sorted &= new.last().is_none_or(|last| *last <= run);
            new.push(run);
        }
        if !sorted {
            new.sort_unstable();
        }
        let blocks = new.len();
        join(new);
        let (joined, last) = (new.len(), new.last().map(|run| usize::from(run.end)));
        let full = self.is_full(blocks);
        let is_cut = may_be_cut && joined >= MAY_BE_ALL;
        self.cut_at = last.filter(|_| is_cut && full);
        let adds = may_be_old && self.current.first().is_some_and(|first| first.start > 0);
        self.unchanged = adds && covers(&self.current, &self.previous);
        if self.unchanged {
            self.previous.clear();
            self.cut_at = self.previous_cut_at;
            return;
        }
        core::mem::swap(&mut self.current, &mut self.previous);
        if adds && !covers(&self.current, &self.previous) {
            merge(&mut self.current, &self.previous);
        } else if is_cut && !adds {
            self.keep_beyond();
        }
    }

    /// True if a SACK with this many blocks may have had no room for more.
    fn is_full(&mut self, blocks: usize) -> bool {
        if blocks < MAY_BE_ALL {
            return false;
        }
        if self.many == LATEST {
            (self.blocks_max, self.many) = ([0, self.blocks_max[0]], 0);
        }
        let [latest, before] = &mut self.blocks_max;
        let full = blocks + blocks / FULL_DIVISOR >= (*latest).max(*before);
        *latest = blocks.max(*latest);
        self.many += 1;
        full
    }

    /// Keeps the earlier reports beyond the last block.
    fn keep_beyond(&mut self) {
        let Some(last) = self.current.last_mut() else { return };
        let end = last.end;
        let first_beyond = self.previous.partition_point(|run| run.end <= end);
        let mut beyond = self.previous.get(first_beyond..).unwrap_or_default();
        if let Some(run) = beyond.first().filter(|run| u32::from(run.start) <= u32::from(end) + 1) {
            last.end = run.end;
            beyond = beyond.get(1..).unwrap_or_default();
        }
        self.current.extend_from_slice(beyond);
    }

    /// Ends the processing of the report.
    pub(crate) fn end_report(&mut self) {
        if self.current.is_empty() && self.current.capacity().max(self.previous.capacity()) > KEPT {
            *self = Self::default();
        }
    }

    /// Returns what is reported now and was not before.
    pub(crate) fn added(&self) -> Difference<'_> {
        let current = if self.unchanged { &[] } else { &self.current[..] };
        Difference::new(current, &self.previous)
    }

    /// Returns what was reported before and is not now.
    pub(crate) fn withdrawn(&self) -> Difference<'_> {
        Difference::new(&self.previous, &self.current)
    }

    /// Returns what is not reported, below `limit`.
    pub(crate) fn holes(&self, limit: usize) -> impl Iterator<Item = core::ops::Range<usize>> + '_ {
        let ends = self.current.iter().map(|run| (usize::from(run.start), usize::from(run.end) + 1));
        let mut from = 0;
        ends.chain(core::iter::once((limit, limit))).map_while(move |(start, next)| {
            let hole = from..start.min(limit);
            from = next;
            (hole.start < limit).then_some(hole)
        })
    }

    /// True if the latest SACK differs from the previous one.
    pub(crate) fn differ(&self) -> bool {
        (!self.unchanged && self.current != self.previous) || self.cut_at != self.previous_cut_at
    }

    /// See the field.
    pub(crate) fn cut_at(&self) -> Option<usize> {
        self.cut_at
    }

    /// Returns the highest index reported.
    pub(crate) fn last(&self) -> Option<usize> {
        self.current.last().map(|run| usize::from(run.end))
    }

    /// True if no gap is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        (self.current.capacity() + self.previous.capacity()) * size_of::<Run>()
    }

    #[cfg(test)]
    pub(crate) fn runs(&self) -> &[Run] {
        &self.current
    }
}

/// Converts a block. Offset 0 is the Cumulative TSN Ack itself, so that index 0 is offset 1. `None` if the block is
/// empty.
fn to_run(block: GapBlock) -> Option<Run> {
    let end = block.end.checked_sub(1)?;
    (block.start <= block.end).then_some(Run { start: block.start.saturating_sub(1), end })
}

/// Joins the runs of a sorted list that overlap or are adjacent.
fn join(runs: &mut Vec<Run>) {
    runs.dedup_by(|next, run| {
        let joined = u32::from(next.start) <= u32::from(run.end) + 1;
        if joined {
            run.end = run.end.max(next.end);
        }
        joined
    });
}

/// Number of runs that are looked at in turn before the search is by halves.
const NEAR: usize = 4;

/// True if one list contains everything in another one. A short list costs little, however long the first one is.
fn covers(runs: &[Run], others: &[Run]) -> bool {
    let mut rest = runs;
    others.iter().all(|run| {
        let near = rest.iter().take(NEAR).position(|known| known.end >= run.end);
        let at = near.unwrap_or_else(|| rest.partition_point(|known| known.end < run.end));
        rest = rest.get(at..).unwrap_or_default();
        rest.first().is_some_and(|known| known.start <= run.start)
    })
}

/// Adds the runs of a sorted list to another one.
fn merge(runs: &mut Vec<Run>, others: &[Run]) {
    let mut from = runs.len();
    runs.extend_from_slice(others);
    // From the last one down, so that each run is moved once.
    let mut left = others;
    let mut to = runs.len();
    while let Some((other, before)) = left.split_last() {
        to -= 1;
        let own = from.checked_sub(1).and_then(|at| runs.get(at)).copied().filter(|own| own > other);
        let Some(slot) = runs.get_mut(to) else { return };
        match own {
            Some(own) => (*slot, from) = (own, from - 1),
            None => (*slot, left) = (*other, before),
        }
    }
    join(runs);
}

/// The runs of one sorted list without those of another.
#[derive(Debug, Clone)]
pub(crate) struct Difference<'a> {
    current: Option<Run>,
    rest: &'a [Run],
    without: &'a [Run],
}

impl<'a> Difference<'a> {
    fn new(runs: &'a [Run], without: &'a [Run]) -> Self {
        let mut difference = Self { current: None, rest: runs, without };
        difference.step();
        difference
    }

    fn step(&mut self) {
        self.current = self.rest.first().copied();
        self.rest = self.rest.get(1..).unwrap_or_default();
    }
}

impl Iterator for Difference<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        loop {
            let run = self.current?;
            while let [first, rest @ ..] = self.without
                && first.end < run.start
            {
                self.without = rest;
            }
            let Some(cut) = self.without.first().filter(|cut| cut.start <= run.end) else {
                self.step();
                return Some(run);
            };
            if cut.end < run.end {
                self.current = Some(Run { start: cut.end + 1, end: run.end });
            } else {
                self.step();
            }
            if cut.start > run.start {
                return Some(Run { start: run.start, end: cut.start - 1 });
            }
        }
    }
}

/// What is acknowledged of a path beyond its first missing chunk (RFC 8985 section 6.2 step 4).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BeyondGap {
    /// The missing chunk.
    first: Option<Tsn>,
    /// Bytes of user data.
    pub(crate) bytes: u32,
    /// Number of SACKs that reported some of it.
    pub(crate) sacks: u32,
}

impl BeyondGap {
    /// Takes in a SACK. `reports` is true if it reported something beyond the gap for the first time. What was reported
    /// beyond another gap does not count.
    pub(crate) fn update(&mut self, first: Option<Tsn>, bytes: u32, reports: bool) {
        if self.first != first || bytes == 0 {
            self.sacks = 0;
        }
        (self.first, self.bytes) = (first, bytes);
        self.sacks = self.sacks.saturating_add(u32::from(reports));
    }
}
