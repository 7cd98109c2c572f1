//! Processing of a SACK (RFC 9260 section 6.2.1).

use strandline_wire::GapBlock;

use super::ack::PathAck;
use super::gaps::Gaps;
use super::loss_detection::NewlyAcked;
use super::miss_indications::{self, Missing};
use super::rack::Rack;
use super::send_window::{RENEGED_MAX, SendWindow, report_acked};
use crate::number::Tsn;
use crate::outbound::messages::Messages;
use crate::outbound::sent::lowest::Lowest;
use crate::outbound::sent::outstanding::{
    self, ACKED_BEFORE, MOVED, ORPHANED, Outstanding, RESENT, Record, Run, State,
};
use crate::path_index::PerPath;
use crate::time::Time;

/// Maximum number of duplicates of a SACK that are looked up.
const DUPLICATES_READ_MAX: usize = 256;

/// The position of a Cumulative TSN Ack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cumulative {
    /// Below the ack point: out of order.
    Stale,
    /// Beyond what was sent.
    Impossible,
    /// This many chunks beyond the ack point.
    Steps(usize),
}

/// The changes by a SACK.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Bytes that left the send window.
    pub(crate) delivered: usize,
    pub(crate) newly_acked: bool,
    pub(crate) entered_fast_recovery: bool,
    pub(crate) in_fast_recovery: bool,
    /// True if the peer keeps revoking what it acknowledged.
    pub(crate) reneges_too_often: bool,
}

impl SendWindow {
    /// Returns the position of a cumulative TSN in the send window.
    pub(crate) fn classify(&self, cumulative: Tsn) -> Cumulative {
        let point = self.outstanding.cumulative_ack();
        let steps = cumulative.distance_from(point) as usize;
        if steps <= self.outstanding.len() {
            Cumulative::Steps(steps)
        } else if cumulative.is_before(point) {
            Cumulative::Stale
        } else {
            Cumulative::Impossible
        }
    }

    /// True if the gap blocks, counted from `steps` beyond the ack point, contain a TSN that was never sent.
    pub(crate) fn reports_unsent(&self, steps: usize, blocks: impl Iterator<Item = GapBlock>) -> bool {
        Gaps::highest(blocks).is_some_and(|highest| steps + highest >= self.outstanding.len())
    }

    /// Records that everything up to `steps` beyond the ack point has arrived. Returns whether anything was
    /// acknowledged for the first time, and the bytes that left.
    pub(crate) fn advance(
        &mut self,
        now: Time,
        steps: usize,
        messages: &mut Messages,
        paths: &mut PerPath<PathAck>,
    ) -> (bool, usize) {
        if let Some(rack) = &mut self.rack {
            rack.begin_sack(now);
        }
        let (newly_acked, delivered) = self.ack_cumulative(steps, messages, paths);
        self.gaps.advance(steps);
        if let Some(non_renegable) = &mut self.non_renegable {
            non_renegable.advance(steps);
        }
        self.renege_budget = RENEGED_MAX.min(self.renege_budget + steps as u32);
        self.fast_recovery.on_cumulative(self.outstanding.cumulative_ack());
        (newly_acked, delivered)
    }

    /// Processes a SACK that `classify` and `reports_unsent` found possible. `can_send_new` is true if there
    /// is new data that the peer has room for. The steps, in this order:
    ///
    /// | step | what it does |
    /// |---|---|
    /// | `ack_cumulative` | removes what the cumulative TSN acknowledges |
    /// | `ack_gap_blocks` | marks the chunks that gap blocks report for the first time |
    /// | `find_missing` | finds each path's lowest missing chunk; counts miss indications |
    /// | `revoke_withdrawn` | what gap blocks no longer report is in flight again |
    /// | `detect_loss` | finds lost chunks by time (RFC 8985) |
    pub(crate) fn acknowledge(
        &mut self,
        now: Time,
        steps: usize,
        blocks: impl Iterator<Item = GapBlock> + Clone,
        can_send_new: bool,
        messages: &mut Messages,
        paths: &mut PerPath<PathAck>,
    ) -> Progress {
        let (newly_acked, delivered) = self.advance(now, steps, messages, paths);
        let mut progress = Progress {
            delivered,
            newly_acked,
            entered_fast_recovery: false,
            in_fast_recovery: self.fast_recovery.is_active(),
            reneges_too_often: false,
        };
        let mut acked = NewlyAcked::default();
        let mut is_new = steps > 0;
        if blocks.clone().next().is_some() || !self.gaps.is_empty() {
            acked = self.process_gap_blocks(steps, blocks, &mut progress, paths);
            is_new = is_new || self.gaps.differ();
        } else {
            self.outstanding.set_unreported(None);
        }
        if let Some(mut rack) = self.rack_recovery() {
            rack.detect_loss(now, is_new.then_some(acked), can_send_new, paths);
        }
        self.gaps.end_report();
        if self.non_renegable.is_some() {
            self.retransmit_revoked(&mut progress, paths);
        }
        progress
    }

    /// Retransmits the chunk after the cumulative TSN if an NR-SACK reported it as non-renegable and the peer
    /// lacks it now. If its data is freed already, it can't be retransmitted, and the association ends.
    #[cold]
    fn retransmit_revoked(&mut self, progress: &mut Progress, paths: &mut PerPath<PathAck>) {
        let Self { outstanding, lowest, rack, renege_budget, .. } = self;
        match outstanding.get(0).map(Record::state) {
            Some(State::NonRenegable) => {
                outstanding.change(0, State::GapAcked);
                let cost = renege((outstanding, lowest), rack.as_deref_mut(), 0, paths);
                progress.reneges_too_often |= *renege_budget < cost;
                *renege_budget = renege_budget.saturating_sub(cost);
            }
            Some(State::NonRenegableFreed) => progress.reneges_too_often = true,
            _ => {}
        }
    }

    /// Processes the non-renegable gap blocks of an NR-SACK, after all of its blocks, with the number of `others` that
    /// it has. `may_be_old` is true if it may have been sent before the previous one. Returns the bytes that left, or
    /// `None` if the peer omits too often what it had reported.
    pub(crate) fn process_non_renegable(
        &mut self,
        blocks: impl Iterator<Item = GapBlock>,
        others: usize,
        may_be_old: bool,
        messages: &mut Messages,
    ) -> Option<usize> {
        let Self { outstanding, non_renegable, renege_budget, rack, .. } = self;
        let non_renegable = non_renegable.get_or_insert_default();
        non_renegable.replace(blocks, others, rack.is_some(), may_be_old);
        let runs = non_renegable.added().map(|run| usize::from(run.start)..=usize::from(run.end));
        let freed =
            runs.flatten().map(|index| outstanding::on_non_renegable(outstanding, index, messages)).sum();
        // Chunks that were reported stay non-renegable. Reporting them again costs work.
        let omitted = non_renegable.withdrawn().map(|run| u32::from(run.end - run.start) + 1).sum();
        *renege_budget = renege_budget.checked_sub(omitted)?;
        non_renegable.end_report();
        Some(freed)
    }

    /// Processes a cumulative acknowledgement of everything up to `steps` beyond the ack point, from a chunk without
    /// gap blocks. If it ends just before a chunk that a gap block reported, the peer lacks that one now, and all
    /// blocks are revoked. `can_send_new` is true if there is new data that the peer has room for.
    pub(crate) fn acknowledge_cumulatively(
        &mut self,
        now: Time,
        steps: usize,
        can_send_new: bool,
        messages: &mut Messages,
        paths: &mut PerPath<PathAck>,
    ) -> Progress {
        let (newly_acked, delivered) = self.advance(now, steps, messages, paths);
        let mut progress = Progress {
            delivered,
            newly_acked,
            in_fast_recovery: self.fast_recovery.is_active(),
            ..Progress::default()
        };
        if self.gaps.revoke_adjacent() {
            self.outstanding.set_unreported(None);
            self.revoke_withdrawn(&mut progress, paths);
        }
        if steps > 0 {
            self.gaps.on_shutdown();
            self.non_renegable.iter_mut().for_each(|non_renegable| non_renegable.on_shutdown());
        }
        if let Some(mut rack) = self.rack_recovery() {
            rack.detect_loss(now, Some(NewlyAcked::default()), can_send_new, paths);
        }
        self.gaps.end_report();
        if self.non_renegable.is_some() {
            self.retransmit_revoked(&mut progress, paths);
        }
        progress
    }

    /// Processes reported duplicates (section 3.3.4). At most [`DUPLICATES_READ_MAX`] are read, because each
    /// is searched for.
    pub(crate) fn on_duplicates(
        &mut self,
        duplicates: impl Iterator<Item = Tsn>,
        paths: &mut PerPath<PathAck>,
    ) {
        let (cumulative, next) = (self.outstanding.cumulative_ack(), self.outstanding.next_tsn());
        if let Some(rack) = &mut self.rack {
            duplicates
                .take(DUPLICATES_READ_MAX)
                .for_each(|tsn| rack.on_duplicate(tsn, cumulative, next, paths));
        }
    }

    /// Processes the gap blocks: what they add, which chunks that shows as missing, and what they revoke, in this
    /// order. Returns for each path the highest index that they acknowledge for the first time.
    fn process_gap_blocks(
        &mut self,
        steps: usize,
        blocks: impl Iterator<Item = GapBlock>,
        progress: &mut Progress,
        paths: &mut PerPath<PathAck>,
    ) -> NewlyAcked {
        let highest_before = self.gaps.last().unwrap_or(0);
        self.gaps.replace(blocks, 0, self.rack.is_some(), steps == 0);
        let acked = self.ack_gap_blocks(highest_before, paths);
        progress.newly_acked |= acked.any;
        self.outstanding.set_unreported(self.gaps.cut_at());
        let missing = Missing { below: acked.highest, all: progress.in_fast_recovery && steps > 0 };
        self.find_missing(missing, &acked.lowest_of, progress, paths);
        self.revoke_withdrawn(progress, paths);
        acked.highest_of
    }

    /// Marks the chunks as acknowledged that the gap blocks report and the previous SACK did not. `highest_before` is
    /// the highest index that was acknowledged before this SACK.
    fn ack_gap_blocks(&mut self, highest_before: usize, paths: &mut PerPath<PathAck>) -> GapAcked {
        let Self { outstanding, gaps, rack, .. } = self;
        let mut acked = GapAcked::default();
        for run in gaps.added() {
            for index in usize::from(run.start)..=usize::from(run.end) {
                if outstanding.get(index).is_some_and(|record| record.state().outlasts_reports()) {
                    continue;
                }
                let Some(record) = outstanding.change(index, State::GapAcked) else { break };
                let (at, timed) = (outstanding.sent_at(index), !outstanding.is_unreported(index));
                if count_acked(&record, (at, timed), &mut paths[record.path]) {
                    acked.add(index, &record);
                    if let Some(rack) = rack
                        && !record.has(ORPHANED)
                    {
                        let run = Run::single(index, &record);
                        report_acked(rack, outstanding, &run, at.map(|at| (at, timed)), highest_before);
                    }
                }
                if let Some(record) = outstanding.get_mut(index) {
                    record.set(ACKED_BEFORE);
                }
            }
        }
        acked
    }

    /// Finds the lowest missing chunk of each path, and with miss indications which chunks are lost. `lowest_acked` is
    /// the lowest index of each path that the gap blocks acknowledge for the first time.
    fn find_missing(
        &mut self,
        missing: Missing,
        lowest_acked: &PerPath<usize>,
        progress: &mut Progress,
        paths: &mut PerPath<PathAck>,
    ) {
        let Self { outstanding, gaps, lowest, fast_recovery, rack, .. } = self;
        let mut lowest_missing = PerPath::filled(usize::MAX);
        if rack.is_none() {
            let lowest = &mut lowest_missing;
            progress.entered_fast_recovery =
                miss_indications::count_misses(outstanding, gaps, missing, fast_recovery, lowest, paths);
        } else {
            lowest_missing = lowest.find_all(outstanding, lowest_acked, missing.below);
        }
        for ((path, acked), missing) in paths.iter_mut().zip(lowest_acked).zip(lowest_missing) {
            path.acked.lowest |= *acked < missing;
        }
    }

    /// Processes what the gap blocks revoke.
    fn revoke_withdrawn(&mut self, progress: &mut Progress, paths: &mut PerPath<PathAck>) {
        let Self { outstanding, gaps, lowest, rack, renege_budget, .. } = self;
        for run in gaps.withdrawn() {
            for index in usize::from(run.start)..=usize::from(run.end) {
                let window = (&mut *outstanding, &mut *lowest);
                let cost = renege(window, rack.as_deref_mut(), index, paths);
                let Some(left) = renege_budget.checked_sub(cost) else {
                    progress.reneges_too_often = true;
                    return;
                };
                *renege_budget = left;
            }
        }
    }
}

/// What the gap blocks of a SACK acknowledge for the first time.
struct GapAcked {
    /// For each path the lowest and the highest index, without chunks of removed paths.
    lowest_of: PerPath<usize>,
    highest_of: NewlyAcked,
    /// The highest index of all; 0 if there is none.
    highest: usize,
    any: bool,
}

impl Default for GapAcked {
    fn default() -> Self {
        let lowest_of = PerPath::filled(usize::MAX);
        Self { lowest_of, highest_of: NewlyAcked::default(), highest: 0, any: false }
    }
}

impl GapAcked {
    /// Adds a chunk; they come in the order of indices.
    fn add(&mut self, index: usize, record: &Record) {
        self.any = true;
        self.highest = index;
        if !record.has(ORPHANED) {
            let lowest = &mut self.lowest_of[record.path];
            *lowest = (*lowest).min(index);
            self.highest_of[record.path] = Some(index);
        }
    }
}

/// Accounts for a chunk that a gap block acknowledges and that was not in the previous SACK. `sent_at` is set if it
/// measures a round-trip time, `timed` if it was reported when it arrived. Returns false if an earlier SACK had
/// acknowledged it.
fn count_acked(record: &Record, (sent_at, timed): (Option<Time>, bool), path: &mut PathAck) -> bool {
    let len = record.chunk_len();
    if record.state() == State::InFlight {
        path.acked.flight_drop += len;
    }
    if record.has(ACKED_BEFORE | ORPHANED) {
        return !record.has(ACKED_BEFORE);
    }
    path.acked.bytes += len;
    path.acked.chunks += 1;
    path.note_answer(!record.has(MOVED), record.state() == State::InFlight);
    if !record.has(RESENT) {
        path.note_rtt(sent_at, timed);
    }
    true
}

/// Handles a chunk whose gap acknowledgement the peer revokes (rule D iii): it is in flight again, with one
/// miss indication. Returns how many chunks must be examined again.
fn renege(
    (outstanding, lowest): (&mut Outstanding, &mut Lowest),
    rack: Option<&mut Rack>,
    index: usize,
    paths: &mut PerPath<PathAck>,
) -> u32 {
    let path = match outstanding.get(index) {
        Some(record) if record.state() == State::GapAcked => record.path,
        // Omitting it has no effect, but reporting it again costs work.
        Some(record) if record.state().outlasts_reports() => return 1,
        _ => return 0,
    };
    outstanding.change(index, State::InFlight);
    lowest.on_outstanding(path, outstanding.tsn(index));
    let examined_again = rack.map_or(0, |rack| rack.on_reneged(index));
    let Some(record) = outstanding.get_mut(index) else { return 0 };
    record.misses = 1;
    let path = &mut paths[record.path];
    path.lost.reneged_bytes += record.chunk_len();
    path.lost.reneged = true;
    1 + examined_again as u32
}
