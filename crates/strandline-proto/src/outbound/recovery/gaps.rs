//! Gap Ack Blocks (RFC 9260 section 3.3.4), normalised and compared with those of the previous SACK.
//!
//! Comparing the two lists finds newly acknowledged and revoked chunks without looking at the chunks in both: the
//! work is bounded by the number of blocks and of chunks whose state changes. A peer may write blocks in any order,
//! overlapping or inverted; only the set of TSNs in them counts.
//!
//! SACKs overtake each other. One with the Cumulative TSN Ack of the previous SACK may be older, so what it omits is
//! not revoked: its blocks are added to those known. Only a Cumulative TSN Ack above that of all SACKs before shows
//! that a SACK is newer; the SHUTDOWN in front of it may have moved the ack point there already. A peer can make the
//! known list as long as the window allows and then add to it with short SACKs: the runs are searched for by halves,
//! and those that a SACK does not touch are copied without being looked at.
//!
//! A SACK has room for a limited number of blocks. One with many of them may omit what does not fit: chunks that an
//! earlier SACK reported beyond its last block are not revoked by that, though it is newer. Strict RFC 9260 mode makes
//! no such distinction (section 6.2.1 D iii): there a newer SACK revokes everything that it omits.

use core::ops::Range;

use strandline_wire::GapBlock;

use crate::number::Tsn;

/// Indices of outstanding chunks, from 0 for the one after the Cumulative TSN Ack Point, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) start: u16,
    pub(crate) end: u16,
}

/// The gap acknowledgements since the latest SACK that was certainly newer than all before, and memory for the next
/// one's. Each list is sorted; its runs neither overlap nor are adjacent.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    current: Vec<Run>,
    /// What was known before the latest SACK, if it changed that.
    previous: Vec<Run>,
    /// The blocks of the latest SACK, if it changed what is known.
    reported: Vec<Run>,
    change: Change,
    /// Number of blocks in `previous` of which the latest SACK may have revoked some.
    revocable: usize,
    /// Maximum number of blocks in a SACK, among the latest ones with many blocks and among those before. The room in
    /// a packet may shrink.
    blocks_max: [usize; 2],
    /// Number of such SACKs in the latest group.
    many: u16,
    /// The highest index that the latest SACK reported, if it was full: it is unknown when chunks beyond it arrived.
    cut_at: Option<usize>,
    /// `cut_at` of the previous SACK.
    previous_cut_at: Option<usize>,
    /// True if the Cumulative TSN Ack Point is above that of all SACKs, because a SHUTDOWN has moved it.
    ahead: bool,
}

/// What a SACK did to the blocks that were known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Change {
    /// It reported nothing that was not known.
    #[default]
    Nothing,
    Added,
    Replaced,
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
        let gone = seek(&self.current, |run| run.end < steps);
        self.current.drain(..gone);
        for run in &mut self.current {
            run.start = run.start.saturating_sub(steps);
            run.end -= steps;
        }
    }

    /// Notes that a SHUTDOWN has moved the Cumulative TSN Ack Point: a SACK up to there is newer than all before.
    pub(crate) fn on_shutdown(&mut self) {
        self.ahead = true;
    }

    /// Revokes all blocks if they contain the chunk after the Cumulative TSN Ack, which a peer that still has that
    /// chunk would have acknowledged with it.
    pub(crate) fn revoke_adjacent(&mut self) -> bool {
        let is_revoked = self.current.first().is_some_and(|first| first.start == 0);
        if is_revoked {
            self.replace(core::iter::empty(), 0, false, false);
        }
        is_revoked
    }

    /// Replaces the blocks by those of a SACK, and keeps the old ones as the previous report. With `may_be_cut`, a
    /// SACK with many blocks, these and `others`, may have had no room for more. With `may_be_old` it does not move the
    /// Cumulative TSN Ack Point, so it may have been sent before the previous one: then its blocks are added. But if
    /// the chunk after that TSN was reported, the peer has revoked that one in any case, and all blocks are replaced.
    pub(crate) fn replace(
        &mut self,
        blocks: impl Iterator<Item = GapBlock>,
        others: usize,
        may_be_cut: bool,
        may_be_old: bool,
    ) {
        self.previous_cut_at = self.cut_at.take();
        // Adjacent blocks take room, too: those of an NR-SACK are renegable or not.
        let number = self.read(blocks) + others;
        let full = self.is_full(number);
        let is_cut = may_be_cut && number >= MAY_BE_ALL;
        self.cut_at = self.reported.last().filter(|_| is_cut && full).map(|run| usize::from(run.end));
        let is_newer = core::mem::take(&mut self.ahead) || !may_be_old;
        let adds = !is_newer && self.current.first().is_some_and(|first| first.start > 0);
        self.revocable = 0;
        if adds && covers(&self.current, &self.reported) {
            self.reported.clear();
            self.change = Change::Nothing;
            self.cut_at = self.previous_cut_at;
            return;
        }
        core::mem::swap(&mut self.current, &mut self.previous);
        if adds {
            self.change = Change::Added;
            unite(&self.previous, &self.reported, &mut self.current);
        } else {
            self.change = Change::Replaced;
            let kept = if is_cut { self.find_beyond() } else { self.previous.len() };
            self.revocable = kept;
            self.current.clear();
            self.current.extend_from_slice(&self.reported);
            self.current.extend_from_slice(self.previous.get(kept..).unwrap_or_default());
        }
    }

    /// Reads the blocks of a SACK. Returns their number.
    fn read(&mut self, blocks: impl Iterator<Item = GapBlock>) -> usize {
        let runs = &mut self.reported;
        runs.clear();
        let mut sorted = true;
        for run in blocks.filter_map(to_run) {
            sorted &= runs.last().is_none_or(|last| *last <= run);
            runs.push(run);
        }
        if !sorted {
            runs.sort_unstable();
        }
        let number = runs.len();
        join(runs);
        number
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

    /// Returns the position of the first block in `previous` that lies beyond the last one reported. If that one
    /// ends within or just before an earlier block, it is extended to the end of that block. Without any, there was no
    /// room for one.
    fn find_beyond(&mut self) -> usize {
        let Some(last) = self.reported.last_mut() else { return 0 };
        let beyond = self.previous.partition_point(|run| run.end <= last.end);
        match self.previous.get(beyond).filter(|run| u32::from(run.start) <= u32::from(last.end) + 1) {
            Some(run) => {
                last.end = run.end;
                beyond + 1
            }
            None => beyond,
        }
    }

    /// Ends the processing of the report.
    pub(crate) fn end_report(&mut self) {
        let Self { current, previous, reported, .. } = self;
        let capacity = current.capacity().max(previous.capacity()).max(reported.capacity());
        if current.is_empty() && capacity > KEPT {
            *self = Self::default();
        }
    }

    /// Returns what is reported now and was not before.
    pub(crate) fn added(&self) -> Difference<'_> {
        Difference::new(&self.reported, &self.previous)
    }

    /// Returns what was reported before and is not now.
    pub(crate) fn withdrawn(&self) -> Difference<'_> {
        Difference::new(self.previous.get(..self.revocable).unwrap_or_default(), &self.reported)
    }

    /// Returns what is not reported within a range. A range may be empty.
    pub(crate) fn holes(&self, within: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let Range { start: mut from, end: limit } = within;
        let first = seek(&self.current, |run| usize::from(run.end) < from);
        let runs = self.current.get(first..).unwrap_or_default();
        let ends = runs.iter().map(|run| (usize::from(run.start), usize::from(run.end) + 1));
        ends.chain(core::iter::once((limit, limit))).map_while(move |(start, next)| {
            look();
            let hole = from..start.min(limit);
            from = next;
            (hole.start < limit).then_some(hole)
        })
    }

    /// True if the latest SACK differs from the previous one.
    pub(crate) fn differ(&self) -> bool {
        let differs = match self.change {
            Change::Nothing => false,
            Change::Added => true,
            Change::Replaced => self.current != self.previous,
        };
        differs || self.cut_at != self.previous_cut_at
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
        (self.current.capacity() + self.previous.capacity() + self.reported.capacity()) * size_of::<Run>()
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

/// Returns the number of runs at the beginning of a sorted list that `is_before` applies to. The search takes the
/// logarithm of the length at most.
fn seek(runs: &[Run], is_before: impl Fn(&Run) -> bool) -> usize {
    let is_before = |run: &Run| {
        look();
        is_before(run)
    };
    let near = runs.iter().take(NEAR).position(|run| !is_before(run));
    near.unwrap_or_else(|| runs.partition_point(is_before))
}

/// Counts runs that are looked at, in tests.
#[inline(always)]
fn look() {
    #[cfg(test)]
    tests::LOOKS.with(|looks| looks.set(looks.get() + 1));
}

/// True if one list contains everything in another one. A short list costs little, however long the first one is.
fn covers(runs: &[Run], others: &[Run]) -> bool {
    let mut rest = runs;
    others.iter().all(|run| {
        rest = rest.get(seek(rest, |known| known.end < run.end)..).unwrap_or_default();
        rest.first().is_some_and(|known| known.start <= run.start)
    })
}

/// Writes all runs of two sorted lists to a third one. A short second list costs little besides copying, however long
/// the first one is: its runs are looked at only near those of the second one.
fn unite(runs: &[Run], others: &[Run], all: &mut Vec<Run>) {
    all.clear();
    if runs.len() <= 2 * others.len() && covers(others, runs) {
        all.extend_from_slice(others);
        return;
    }
    let mut rest = runs;
    for other in others {
        let (before, touched) =
            rest.split_at(seek(rest, |run| u32::from(run.end) + 1 < u32::from(other.start)));
        all.extend_from_slice(before);
        let (joined, beyond) =
            touched.split_at(seek(touched, |run| u32::from(run.start) <= u32::from(other.end) + 1));
        let start = joined.first().map_or(other.start, |run| run.start.min(other.start));
        let end = joined.last().map_or(other.end, |run| run.end.max(other.end));
        match all.last_mut().filter(|last| u32::from(start) <= u32::from(last.end) + 1) {
            Some(last) => last.end = end.max(last.end),
            None => all.push(Run { start, end }),
        }
        rest = beyond;
    }
    all.extend_from_slice(rest);
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
            look();
            let before = seek(self.without, |cut| cut.end < run.start);
            self.without = self.without.get(before..).unwrap_or_default();
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

#[cfg(test)]
mod tests;
