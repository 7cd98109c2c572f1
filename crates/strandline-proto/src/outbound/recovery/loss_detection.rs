//! Loss detection by time (RFC 8985 section 6), with the state in [`Rack`]: after each SACK, at its deadline, after
//! T3-rtx, and for tail-loss probes (section 7).
//!
//! | method of [`RackRecovery`] | called |
//! |---|---|
//! | [`detect_loss`](RackRecovery::detect_loss) | after each SACK, and when [`Rack::deadline`] passes |
//! | [`on_timeout`](RackRecovery::on_timeout), [`on_path_marked`](RackRecovery::on_path_marked) | after T3-rtx; [`Frto`](super::frto::Frto) detects whether it was spurious |
//! | [`on_path_marked_without_loss`](RackRecovery::on_path_marked_without_loss) | for retransmissions without a loss |
//! | [`on_window_probe`](RackRecovery::on_window_probe), [`path_to_probe`](RackRecovery::path_to_probe) | to probe a peer that had no room |
//! | [`on_shrunk`](RackRecovery::on_shrunk) | after an ECN mark |
//! | [`on_probe`](RackRecovery::on_probe) | for tail-loss probes |

use super::ack::PathAck;
use super::congestion_event::Transmission;
use super::frto::Decision;
use super::gaps::Gaps;
use super::probing_retransmission::ProbingRetransmission;
use super::rack::{Answer, LatestProbes, LossThreshold, PathRack, Rack, was_sent_before};
use super::send_window::SendWindow;
use crate::number::Tsn;
use crate::outbound::sent::outstanding::{
    FAST_MARKED, MOVED, ORPHANED, Outstanding, PROBE, RESENT, Record, State,
};
use crate::path_index::{PathIndex, PerPath};
use crate::time::Time;

/// Number of packets acknowledged beyond a gap from which on reordering is unlikely.
const DUP_THRESH: u32 = 3;

/// Maximum number of chunks examined beyond the first one that is not lost yet. Later ones wait until it is lost or
/// acknowledged, so that a SACK costs little however many chunks are missing.
const EXAMINED_MAX: usize = 4096;

/// Eighths of the round-trip time within which the answer to a chunk is still in flight.
const IN_FLIGHT_EIGHTHS: u64 = 7;

/// The room of a packet for chunks with user data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) bytes: u32,
    /// Bytes that each chunk takes beyond a DATA chunk.
    pub(crate) extra_each: u32,
}

/// For each path the highest index that a SACK acknowledged for the first time by a gap block.
pub(crate) type NewlyAcked = PerPath<Option<usize>>;

/// The parts of a send window that loss detection by time works on.
#[derive(Debug)]
pub(crate) struct RackRecovery<'a> {
    rack: &'a mut Rack,
    outstanding: &'a mut Outstanding,
    gaps: &'a Gaps,
}

impl SendWindow {
    /// Returns what loss detection by time works on, or `None` with miss indications.
    #[inline]
    pub(crate) fn rack_recovery(&mut self) -> Option<RackRecovery<'_>> {
        let Self { rack, outstanding, gaps, .. } = self;
        rack.as_deref_mut().map(|rack| RackRecovery { rack, outstanding, gaps })
    }
}

/// After a SACK or a deadline.
impl RackRecovery<'_> {
    /// Takes in what a SACK acknowledged, finds lost chunks (RFC 8985 section 6.2: RACK_update and
    /// RACK_detect_loss), and detects which reactions were spurious. When a deadline has passed, only time is
    /// new. `newly_acked` is `None` if the SACK reports nothing that the previous one did not. `can_send_new`
    /// is true if there is new data that the peer has room for, which may test whether a time-out was
    /// spurious.
    pub(crate) fn detect_loss(
        &mut self,
        now: Time,
        newly_acked: Option<NewlyAcked>,
        can_send_new: bool,
        acks: &mut PerPath<PathAck>,
    ) {
        let overdue = self.update_paths(now, can_send_new, acks);
        self.rack.end_certain_undo();
        self.rack.apply_karn(acks);
        if let Some(newly_acked) = newly_acked {
            self.count_behind_gaps(&newly_acked);
            self.rack.stale = true;
        }
        if overdue || !(self.gaps.is_empty() && self.rack.log.is_empty()) {
            self.find_lost(now, acks);
        }
        self.finish_paths(acks);
    }

    /// Takes in what a SACK acknowledged on each path: F-RTO, RACK_update, the reordering window, the end of recovery.
    /// Returns true if a chunk may be lost that neither a gap nor the log of retransmissions shows: it may have been
    /// sent before a retransmission that was acknowledged.
    #[inline]
    fn update_paths(&mut self, now: Time, can_send_new: bool, acks: &mut PerPath<PathAck>) -> bool {
        let Self { rack, outstanding, .. } = self;
        let cumulative = outstanding.cumulative_ack();
        let mut overdue = false;
        let moment = rack.moment(outstanding.next_tsn());
        for (path, ack) in rack.paths.iter_mut().zip(acks.iter_mut()) {
            path.decide_frto(cumulative, can_send_new, ack);
            overdue |= path.update(now);
            if core::mem::take(&mut path.spurious_seen) {
                path.widen_window(cumulative, moment.tsn);
            }
            path.on_cumulative(cumulative, moment, ack);
            overdue |= path.deadline.is_some();
        }
        overdue
    }

    /// Undoes reactions that turned out to be spurious, and reports which paths are in recovery.
    #[inline]
    fn finish_paths(&mut self, acks: &mut PerPath<PathAck>) {
        for (path, ack) in self.rack.paths.iter_mut().zip(acks.iter_mut()) {
            if path.spurious.take_refuted() {
                path.on_undone();
                path.frto.end();
                ack.undo = true;
            }
            ack.in_recovery = path.in_recovery();
        }
    }

    /// Counts for each path the bytes acknowledged beyond its first gap (RFC 8985 section 6.2 step 4). Chunks
    /// of other or removed paths, and chunks moved here by a retransmission, open no gap.
    fn count_behind_gaps(&mut self, newly_acked: &NewlyAcked) {
        let Self { rack, outstanding, gaps } = self;
        let mut found = PerPath::<Gap>::default();
        if let Some(path) = outstanding.only_path() {
            let first = (!gaps.is_empty()).then(|| outstanding.abandoned_first(EXAMINED_MAX));
            found[path] = Gap { first, behind: outstanding.gap_acked_bytes() };
        } else {
            let reported = gaps.last().map_or(0, |last| last + 1);
            for (index, record) in outstanding.range(0, reported.min(EXAMINED_MAX)).enumerate() {
                if record.has(ORPHANED) {
                    continue;
                }
                let gap = &mut found[record.path];
                match (record.state(), gap.first) {
                    (State::GapAcked | State::NonRenegable | State::NonRenegableFreed, Some(_)) => {
                        gap.behind += u32::from(record.len)
                    }
                    (State::GapAcked | State::NonRenegable | State::NonRenegableFreed, None)
                    | (State::Abandoned, _) => {}
                    // What the path delivered was sent before that was retransmitted here.
                    _ if record.has(MOVED) => {}
                    (_, first) => gap.first = first.or(Some(index)),
                }
            }
        }
        for ((path, gap), newest) in rack.paths.iter_mut().zip(found).zip(newly_acked) {
            let reports = gap.first.zip(*newest).is_some_and(|(first, newest)| newest > first);
            path.beyond_gap.update(gap.first.map(|index| outstanding.tsn(index)), gap.behind, reports);
        }
    }

    /// Finds lost chunks (RFC 8985 section 6.2 step 5): first those sent once, in the order of TSN and time, then
    /// retransmissions, in the order of time. If nothing new is known since the last time, and nothing became overdue
    /// meanwhile, the result would be the same.
    fn find_lost(&mut self, now: Time, acks: &mut PerPath<PathAck>) {
        let thresholds = self.rack.thresholds(now);
        if !self.rack.stale && now < self.rack.next_loss_at {
            return;
        }
        self.rack.stale = false;
        self.rack.next_loss_at = Time::MAX;
        self.rack.paths.iter_mut().for_each(|path| path.deadline = None);
        self.find_lost_first_transmissions(&thresholds, acks);
        self.find_lost_retransmissions(&thresholds, acks);
    }

    /// Marks lost chunks that were sent once. Skips those below `Rack::examined`, and ends at the first one
    /// that was sent too late to be lost.
    fn find_lost_first_transmissions(&mut self, thresholds: &Thresholds, acks: &mut PerPath<PathAck>) {
        let gaps = self.gaps;
        let mut examined = Some(self.rack.examined);
        let mut left = EXAMINED_MAX;
        'holes: for hole in gaps.holes(self.rack.examined..self.outstanding.len()) {
            for index in hole {
                let Some(record) = self.outstanding.get(index) else { break 'holes };
                // The latest SACK had no room for this chunk and the following ones.
                if self.outstanding.is_unreported(index) {
                    self.rack.examined = examined.take().unwrap_or(self.rack.examined);
                    self.remove_overdue(index, thresholds, acks);
                    break 'holes;
                }
                let open = matches!(record.state(), State::InFlight | State::Overdue);
                if open && !record.has(RESENT) {
                    match self.examine_first_transmission(index, thresholds) {
                        Verdict::TooNew => break 'holes,
                        Verdict::Waits => self.rack.examined = examined.take().unwrap_or(self.rack.examined),
                        Verdict::Lost => self.mark_lost(index, acks),
                    }
                }
                examined = examined.map(|_| index + 1);
                left -= usize::from(examined.is_none());
                if left == 0 {
                    break 'holes;
                }
            }
        }
        self.rack.examined = examined.unwrap_or(self.rack.examined);
    }

    /// Returns whether a chunk that was sent once is lost.
    fn examine_first_transmission(&mut self, index: usize, thresholds: &Thresholds) -> Verdict {
        let Some(record) = self.outstanding.get(index) else { return Verdict::Waits };
        let path = record.path;
        let sent = self.outstanding.sent_at(index).map(|at| (at, self.outstanding.tsn(index)));
        sent.map_or(Verdict::Waits, |sent| self.rack.examine(path, sent, thresholds))
    }

    /// Removes overdue chunks that were sent once from the flight, even if no SACK has room to report whether they
    /// arrived: they have left the network. Otherwise a window that has shrunk could be full of them, and nothing
    /// would be sent that SACKs could answer.
    fn remove_overdue(&mut self, from: usize, thresholds: &Thresholds, acks: &mut PerPath<PathAck>) {
        let from = from.max(self.rack.overdue);
        self.rack.overdue = from + EXAMINED_MAX;
        for index in from..from + EXAMINED_MAX {
            let open = self.outstanding.get(index).filter(|_| self.outstanding.is_unreported(index));
            let Some(record) = open else {
                self.rack.overdue = index;
                break;
            };
            if record.state() != State::InFlight || record.has(RESENT) {
                continue;
            }
            if !matches!(self.examine_first_transmission(index, thresholds), Verdict::Lost) {
                self.rack.overdue = index;
                break;
            }
            self.set_overdue(index, acks);
        }
    }

    /// Marks lost chunks that were retransmitted.
    fn find_lost_retransmissions(&mut self, thresholds: &Thresholds, acks: &mut PerPath<PathAck>) {
        let Self { rack, outstanding, .. } = self;
        rack.log.prune(|tsn, number| outstanding.index_sent_as(tsn, number).is_some());
        let mut left = EXAMINED_MAX;
        for entry in 0..self.rack.log.len() {
            let Some((number, tsn, at)) = self.rack.log.entry(entry) else { break };
            let Some(index) = self.outstanding.index_sent_as(tsn, number) else { continue };
            let Some(record) = self.outstanding.get(index) else { continue };
            match self.rack.examine(record.path, (at, tsn), thresholds) {
                Verdict::TooNew => break,
                Verdict::Waits if left == 0 => break,
                Verdict::Waits => left -= 1,
                Verdict::Lost if self.outstanding.is_unreported(index) => self.set_overdue(index, acks),
                Verdict::Lost => self.mark_lost(index, acks),
            }
        }
    }

    /// Marks a lost chunk for retransmission, and assigns its loss to a congestion event.
    fn mark_lost(&mut self, index: usize, acks: &mut PerPath<PathAck>) {
        let moment = self.rack.moment(self.outstanding.next_tsn());
        let Some(sent) = self.transmission(index) else { return };
        let Some(record) = self.outstanding.get_mut(index) else { return };
        record.set(FAST_MARKED);
        let (len, path) = (record.chunk_len(), record.path);
        let was_overdue = record.state() == State::Overdue;
        self.outstanding.change(index, State::Marked);
        let ack = &mut acks[path];
        ack.lost.bytes += len;
        ack.lost.chunks += 1;
        ack.lost.reported_bytes += if was_overdue { len } else { 0 };
        let tsn = self.outstanding.tsn(index);
        self.rack.path(path).on_lost(tsn, sent, moment, ack);
    }

    /// Marks a chunk as overdue: no SACK has room to report its fate.
    fn set_overdue(&mut self, index: usize, acks: &mut PerPath<PathAck>) {
        let in_flight = |record: &&Record| record.state() == State::InFlight;
        let Some(record) = self.outstanding.get(index).filter(in_flight) else { return };
        acks[record.path].lost.overdue_bytes += record.chunk_len();
        self.outstanding.change(index, State::Overdue);
    }

    /// Returns the latest transmission of a chunk.
    fn transmission(&self, index: usize) -> Option<Transmission> {
        let record = self.outstanding.get(index)?;
        let again = record.has(RESENT).then(|| Transmission::Again(self.rack.log.whole(record.resent)));
        Some(again.unwrap_or_else(|| Transmission::First(self.outstanding.tsn(index))))
    }
}

/// A gap in the data of a path.
#[derive(Debug, Clone, Copy, Default)]
struct Gap {
    /// Index of the first missing chunk.
    first: Option<usize>,
    /// Bytes acknowledged beyond it.
    behind: u32,
}

/// What decides whether chunks in flight are lost.
#[derive(Debug)]
struct Thresholds {
    of_path: PerPath<Option<LossThreshold>>,
    /// When the latest chunk of all that was acknowledged was sent.
    newest: Time,
    now: Time,
}

/// The result for one chunk.
enum Verdict {
    /// It was sent after everything that has been acknowledged, on any path.
    TooNew,
    /// It is not late enough, or later data of its path was not acknowledged.
    Waits,
    Lost,
}

impl Rack {
    /// Returns the thresholds for chunks in flight, and notes whether any has changed.
    fn thresholds(&mut self, now: Time) -> Thresholds {
        let mut thresholds = Thresholds { of_path: PerPath::default(), newest: Time::ZERO, now };
        for (threshold, path) in thresholds.of_path.iter_mut().zip(self.paths.iter_mut()) {
            let Some(latest) = path.latest else { continue };
            let many_acked = path.beyond_gap.sacks >= DUP_THRESH
                || (self.packet > 0 && path.beyond_gap.bytes >= DUP_THRESH * self.packet);
            let loss_delay_ns = path.rtt_ns.max(1) + path.reordering_window_ns(many_acked);
            *threshold = Some(LossThreshold { latest, loss_delay_ns });
            thresholds.newest = thresholds.newest.max(latest.0);
            self.stale |= path.threshold != *threshold;
            path.threshold = *threshold;
        }
        thresholds
    }

    /// Returns whether a chunk is lost by its latest transmission: if something sent later on its path is
    /// acknowledged, and RACK.rtt and the reordering window have passed.
    fn examine(&mut self, path: PathIndex, sent: (Time, Tsn), thresholds: &Thresholds) -> Verdict {
        #[cfg(test)]
        {
            self.examinations += 1;
        }
        if sent.0 > thresholds.newest {
            return Verdict::TooNew;
        }
        let Some(threshold) =
            thresholds.of_path[path].filter(|threshold| was_sent_before(sent, threshold.latest))
        else {
            return Verdict::Waits;
        };
        let at = Time::from_nanos(sent.0.as_nanos().saturating_add(threshold.loss_delay_ns));
        if at <= thresholds.now {
            return Verdict::Lost;
        }
        self.next_loss_at = self.next_loss_at.min(at);
        let path = self.path(path);
        path.deadline = path.deadline.max(Some(at));
        Verdict::Waits
    }

    /// Ends the undo states of losses that are certain by now.
    fn end_certain_undo(&mut self) {
        if !self.paths.iter().any(|path| path.spurious.is_open()) {
            return;
        }
        let round_trip_ns = self.round_trip_ns();
        for path in self.paths.iter_mut() {
            if let Some((latest, _)) = path.latest {
                path.spurious.close_if_certain(latest, round_trip_ns);
            }
        }
    }
}

impl PathRack {
    /// Decides after a SACK whether the latest time-out was spurious.
    fn decide_frto(&mut self, cumulative: Tsn, can_send_new: bool, ack: &mut PathAck) {
        let elsewhere = self.probing.take_answer(cumulative);
        if let Some((at, tsn)) = elsewhere
            && !self.frto.holds(at, tsn, true)
        {
            self.consider(at, tsn, Answer::Elsewhere);
        }
        // New data takes the other path too, and would answer nothing.
        let can_send_new = can_send_new && elsewhere.is_none();
        match self.frto.decide(cumulative, can_send_new) {
            Decision::Wait => {}
            Decision::SendNew => ack.probes_timeout = can_send_new,
            Decision::Genuine(Some((at, tsn))) => {
                self.consider(at, tsn, if elsewhere.is_some() { Answer::Elsewhere } else { Answer::Again });
            }
            Decision::Genuine(None) => {}
            Decision::Spurious => {
                self.spurious.close();
                self.on_undone();
                ack.undo = true;
            }
        }
    }
}

/// After a timer or another event.
impl RackRecovery<'_> {
    /// Handles an expiry of T3-rtx without another path: marks as many of the lowest chunks as fit `room`, that
    /// of a packet. Answers show whether the others are lost ([`Frto`](super::frto::Frto)). Returns the bytes marked,
    /// including headers and padding. `again` is true if nothing was acknowledged since the previous time-out, so that
    /// the test continues (RFC 5682 section 3.2). Returns `None` if there was an answer that did not help, so that all
    /// chunks must be marked.
    pub(crate) fn on_timeout(&mut self, path: PathIndex, again: bool, room: Room) -> Option<u32> {
        let Self { rack, outstanding, .. } = self;
        let moment = rack.moment(outstanding.next_tsn());
        let state = rack.path(path);
        if state.timed_out.is_some() && !again {
            return None;
        }
        state.on_timeout(moment);
        state.begin_undo(again);
        state.frto.begin(moment.tsn.previous());
        Some(mark_first(outstanding, path, room, |tsn, record| {
            state.probing.add_chunk(tsn);
            undo_marked(state, tsn, record, again);
        }))
    }

    /// Handles an expiry of T3-rtx while the peer reports a closed window: the same chunks probe the window, which is
    /// no loss.
    pub(crate) fn on_window_probe(&mut self, path: PathIndex, room: Room) -> u32 {
        self.on_path_marked_without_loss(path);
        let probing = &mut self.rack.path(path).probing;
        mark_first(self.outstanding, path, room, |tsn, _| probing.add_chunk(tsn))
    }

    /// Returns the path of the lowest chunk, which may be retransmitted to learn its fate. Called when the peer's
    /// window has opened by a SACK that acknowledges nothing. Returns `None` if the chunk was sent so recently that
    /// the answer is still in flight.
    pub(crate) fn path_to_probe(&self, now: Time) -> Option<PathIndex> {
        let lowest = self.outstanding.get(0).filter(|record| record.state() == State::InFlight)?;
        let sent_at = match lowest.has(RESENT) {
            true => self.rack.log.at(lowest.resent),
            false => self.outstanding.sent_at(0),
        };
        let answer_ns = u128::from(self.rack.round_trip_ns() / 8 * IN_FLIGHT_EIGHTHS);
        let recent = sent_at.is_some_and(|at| now.since(at).as_nanos() < answer_ns);
        (!recent).then_some(lowest.path)
    }

    /// Handles the marking of everything in flight on the path, which is retransmitted, on another path if there is
    /// one. If it was only late, duplicates will show it. `again` is as in [`on_timeout`](Self::on_timeout).
    pub(crate) fn on_path_marked(&mut self, path: PathIndex, again: bool) {
        let moment = self.rack.moment(self.outstanding.next_tsn());
        let state = self.rack.path(path);
        state.on_timeout(moment);
        state.begin_undo(again);
        for index in 0..self.outstanding.len() {
            let tsn = self.outstanding.tsn(index);
            let Some(record) = self.outstanding.get(index) else { break };
            if record.path == path && record.state() == State::Marked {
                // Earlier marks are not distinguished from new ones.
                undo_marked(state, tsn, record, true);
            }
        }
        state.frto.end();
        state.deadline = None;
        self.rack.stale = true;
    }

    /// Handles the marking of everything in flight on the path without a sign of loss. Duplicates no longer show
    /// whether an earlier loss was spurious.
    pub(crate) fn on_path_marked_without_loss(&mut self, path: PathIndex) {
        let state = self.rack.path(path);
        state.probes = LatestProbes::default();
        state.spurious.close();
        state.frto.end();
        state.probing = ProbingRetransmission::default();
        state.deadline = None;
        self.rack.stale = true;
    }

    /// Handles a reduction of a path's window for a mark: losses of data sent so far belong to the same event.
    pub(crate) fn on_shrunk(&mut self, path: PathIndex) {
        let moment = self.rack.moment(self.outstanding.next_tsn());
        self.rack.path(path).on_shrunk(moment);
    }

    /// Marks the data of a tail-loss probe without new data: the highest chunk in flight on the path (RFC
    /// 8985 section 7.3) among those that SACKs have room to report, unless `may_probe` denies it. Returns
    /// its bytes, which leave the flight.
    pub(crate) fn on_probe(&mut self, path: PathIndex, may_probe: impl Fn(Tsn, &Record) -> bool) -> u32 {
        let outstanding = &mut *self.outstanding;
        let in_flight = |index: &usize| {
            outstanding
                .get(*index)
                .is_some_and(|record| record.path == path && record.state() == State::InFlight)
        };
        // SACKs have no room to report an answer for the others.
        let mut reported = (0..outstanding.len()).rev().filter(|index| !outstanding.is_unreported(*index));
        let Some(index) = reported.find(in_flight) else { return 0 };
        let sent = self.transmission(index);
        let tsn = self.outstanding.tsn(index);
        let Some(record) = self.outstanding.get_mut(index).filter(|record| may_probe(tsn, record)) else {
            return 0;
        };
        record.set(FAST_MARKED | PROBE);
        let len = record.chunk_len();
        self.outstanding.change(index, State::Marked);
        sent.into_iter().for_each(|sent| self.rack.path(path).note_probe(tsn, sent));
        len
    }
}

/// Marks as many of the path's lowest chunks as fit a packet, and at least one. `on_mark` sees each before. Returns the
/// bytes that leave the flight.
fn mark_first(
    outstanding: &mut Outstanding,
    path: PathIndex,
    packet: Room,
    mut on_mark: impl FnMut(Tsn, &Record),
) -> u32 {
    let (mut room, mut bytes) = (packet.bytes, 0);
    for index in 0..outstanding.len() {
        let tsn = outstanding.tsn(index);
        let Some(record) = outstanding.get_mut(index) else { break };
        if record.path != path || record.is_done() {
            continue;
        }
        let len = record.chunk_len();
        let takes = len + packet.extra_each;
        if takes > room && room < packet.bytes {
            break;
        }
        room = room.saturating_sub(takes);
        on_mark(tsn, record);
        record.clear(FAST_MARKED);
        match record.state() {
            State::InFlight => bytes += len,
            State::Overdue => {}
            _ => continue,
        }
        outstanding.change(index, State::Marked);
    }
    bytes
}

/// Records that a time-out marks a chunk. `known` is true if an earlier mark belongs to the same undo state.
fn undo_marked(state: &mut PathRack, tsn: Tsn, record: &Record, known: bool) {
    if record.has(RESENT) || (record.state() == State::Marked && !known) {
        state.spurious.on_marked_again(tsn);
    } else {
        state.spurious.on_marked();
    }
}
