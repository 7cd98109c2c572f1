//! Gap Ack Blocks (RFC 9260 section 3.3.4) put in order, and compared with those of the SACK before.
//!
//! Comparing the two lists finds what is newly acknowledged and what was taken back without a look at the chunks that
//! both name: the work is bounded by the blocks and the chunks whose state changes. A peer may write any blocks it
//! likes, in any order, overlapping or inverted; what counts is the set of TSNs that they name.
//!
//! A SACK has room for so many blocks and no more. One with many of them may be silent about what it has no room for: what
//! an earlier one named beyond its last block was not taken back by that, unless RFC 9260 is kept to alone, which knows no
//! such difference (section 6.2.1 D iii).

use strandline_wire::GapBlock;

/// Indices of outstanding chunks, from 0 for the one after the Cumulative TSN Ack Point; both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) start: u16,
    pub(super) end: u16,
}

/// The gap acknowledgements of the latest SACK, and room for the next one's.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Sorted; neither overlapping nor adjacent.
    current: Vec<Run>,
    previous: Vec<Run>,
    /// The most blocks that a SACK had, of the latest with many and of those before: what a packet has room for may become less.
    blocks_max: [usize; 2],
    /// How many the latest are.
    many: u16,
    /// The highest index that the latest SACK named, if it was as full as any: of what lies behind that nobody knows since when it has been
    /// there.
    cut_at: Option<usize>,
    /// `cut_at` of the SACK before.
    previous_cut_at: Option<usize>,
}

/// Blocks beyond which the room is given back once there is no gap: only hostile peers or very bad networks get there.
const KEPT: usize = 256;

/// With so many blocks a SACK may have been full: the kernel's SCTP gives no more, others as many as a packet holds.
const MAY_BE_ALL: usize = 16;

/// The most blocks that one had are those of the latest so many with as many blocks as that, or of twice as many.
const LATEST: u16 = 1 << 10;

impl Gaps {
    /// The highest index that well-formed blocks name.
    pub(super) fn highest(blocks: impl Iterator<Item = GapBlock>) -> Option<usize> {
        blocks.filter_map(to_run).map(|run| usize::from(run.end)).max()
    }

    /// The Cumulative TSN Ack Point moved by `steps`.
    pub(super) fn advance(&mut self, steps: usize) {
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

    /// Takes over the blocks of a SACK; what was known before becomes the previous report. `may_be_cut`: a SACK with many
    /// blocks may have had no room for more.
    pub(super) fn replace(&mut self, blocks: impl Iterator<Item = GapBlock>, may_be_cut: bool) {
        core::mem::swap(&mut self.current, &mut self.previous);
        self.current.clear();
        let mut sorted = true;
        self.previous_cut_at = self.cut_at.take();
        for run in blocks.filter_map(to_run) {
            sorted &= self.current.last().is_none_or(|last| *last <= run);
            self.current.push(run);
        }
        if !sorted {
            self.current.sort_unstable();
        }
        let full = self.is_full(self.current.len());
        self.current.dedup_by(|next, run| {
            let joined = u32::from(next.start) <= u32::from(run.end) + 1;
            if joined {
                run.end = run.end.max(next.end);
            }
            joined
        });
        if may_be_cut && self.current.len() >= MAY_BE_ALL {
            self.cut_at = self.last().filter(|_| full);
            self.keep_beyond();
        }
    }

    /// A SACK with so many blocks may have had no room for more.
    fn is_full(&mut self, blocks: usize) -> bool {
        if blocks < MAY_BE_ALL {
            return false;
        }
        if self.many == LATEST {
            (self.blocks_max, self.many) = ([0, self.blocks_max[0]], 0);
        }
        let [latest, before] = &mut self.blocks_max;
        let full = blocks + blocks / 16 >= (*latest).max(*before);
        *latest = blocks.max(*latest);
        self.many += 1;
        full
    }

    /// What was named before beyond the last block still is.
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

    /// The report has been dealt with.
    pub(super) fn settle(&mut self) {
        if self.current.is_empty() && self.current.capacity().max(self.previous.capacity()) > KEPT {
            *self = Self::default();
        }
    }

    /// Named now and not before.
    pub(super) fn added(&self) -> Difference<'_> {
        Difference::new(&self.current, &self.previous)
    }

    /// Named before and not now.
    pub(super) fn withdrawn(&self) -> Difference<'_> {
        Difference::new(&self.previous, &self.current)
    }

    /// What is not named, below `limit`.
    pub(super) fn holes(&self, limit: usize) -> impl Iterator<Item = core::ops::Range<usize>> + '_ {
        let ends = self.current.iter().map(|run| (usize::from(run.start), usize::from(run.end) + 1));
        let mut from = 0;
        ends.chain(core::iter::once((limit, limit))).map_while(move |(start, next)| {
            let hole = from..start.min(limit);
            from = next;
            (hole.start < limit).then_some(hole)
        })
    }

    /// The latest SACK says anything else than the one before it.
    pub(super) fn differ(&self) -> bool {
        self.current != self.previous || self.cut_at != self.previous_cut_at
    }

    /// See the field.
    pub(super) fn cut_at(&self) -> Option<usize> {
        self.cut_at
    }

    /// The highest index named.
    pub(super) fn last(&self) -> Option<usize> {
        self.current.last().map(|run| usize::from(run.end))
    }

    /// No gap is known, now or before.
    pub(super) fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        (self.current.capacity() + self.previous.capacity()) * size_of::<Run>()
    }

    #[cfg(test)]
    pub(super) fn runs(&self) -> &[Run] {
        &self.current
    }
}

/// Offset 0 is the Cumulative TSN Ack itself, so that index 0 is offset 1. None: the block names nothing.
fn to_run(block: GapBlock) -> Option<Run> {
    let end = block.end.checked_sub(1)?;
    (block.start <= block.end).then_some(Run { start: block.start.saturating_sub(1), end })
}

/// Runs of one sorted list without those of another.
#[derive(Debug, Clone)]
pub(super) struct Difference<'a> {
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
