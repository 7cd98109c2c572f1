//! Loss detection by time, with the state in [`Rack`]: after each SACK, at its deadline, after T3-rtx, and for tail-loss
//! probes.
//!
//! | method of [`ByTime`] | called |
//! |---|---|
//! | [`conclude`](ByTime::conclude) | after each SACK, and when [`Rack::deadline`] passes: finds lost chunks |
//! | [`on_path_refused`](ByTime::on_path_refused), [`on_shrunk`](ByTime::on_shrunk) | for retransmissions without a loss; after an ECN mark |
//! | [`on_timeout`](ByTime::on_timeout), [`on_path_marked`](ByTime::on_path_marked) | after T3-rtx; [`Frto`](super::frto::Frto) detects whether it was spurious |
//! | [`ProbingRetransmission`] | finds the answer to a time-out or window probe on another path |
//! | [`on_window_probe`](ByTime::on_window_probe), [`path_to_ask`](ByTime::path_to_ask) | to probe a peer that had no room |
//! | [`on_probe`](ByTime::on_probe) | for tail-loss probes |

use super::ack::PathAck;
use super::congestion_event::Sent;
use super::frto::Decision;
use super::gaps::Gaps;
use super::probing_retransmission::ProbingRetransmission;
use super::rack::{Answer, LatestProbes, PathRack, Rack, Yardstick, is_before};
use super::send_window::SendWindow;
use crate::number::Tsn;
use crate::outbound::sent::outstanding::{
    ACKED_BEFORE, FAST_MARKED, MOVED, ORPHANED, Outstanding, PROBE, RESENT, Record, State,
};
use crate::path_index::{PathIndex, PerPath};
use crate::time::Time;

/// Number of packets acknowledged beyond a gap from which on reordering is unlikely (DupThresh).
const PACKETS_ACKED: u32 = 3;

/// Maximum number of chunks examined beyond the first one that is not lost yet. Later ones wait until it is judged,
/// so that a SACK costs little however many chunks are missing.
const LOOKED_AT_MAX: usize = 4096;

/// Eighths of the round-trip time within which the answer to a chunk is still in flight.
const ANSWER_EIGHTHS: u64 = 7;

/// The room of a packet for chunks with user data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) bytes: u32,
    /// Bytes that each chunk takes beyond a DATA chunk.
    pub(crate) extra_each: u32,
}

/// For each path the highest index that a SACK reported for the first time beyond a gap.
pub(crate) type Newly = PerPath<Option<usize>>;

/// A gap in the data of a path.
#[derive(Debug, Clone, Copy, Default)]
struct Gap {
    /// Index of the first missing chunk.
    first: Option<usize>,
    /// Bytes acknowledged beyond it.
    behind: u32,
}

/// What the chunks in flight are judged by.
#[derive(Debug)]
struct Criteria {
    of: PerPath<Option<Yardstick>>,
    /// When the latest chunk of all that was acknowledged was sent.
    newest: Time,
    now: Time,
}

/// The judgement of one chunk.
enum Verdict {
    /// It was sent after everything that has been acknowledged, on any path.
    TooNew,
    Waits,
    Lost,
}

impl Rack {
    /// Returns the criteria that chunks in flight are judged by.
    fn criteria(&mut self, now: Time) -> Criteria {
        let mut criteria = Criteria { of: PerPath::default(), newest: Time::ZERO, now };
        for (stick, path) in criteria.of.iter_mut().zip(self.paths.iter_mut()) {
            let Some(latest) = path.latest else { continue };
            let many_acked = path.beyond_gap.sacks >= PACKETS_ACKED
                || (self.packet > 0 && path.beyond_gap.bytes >= PACKETS_ACKED * self.packet);
            let patience_ns = path.rtt_ns.max(1) + path.reordering_window_ns(many_acked);
            *stick = Some(Yardstick { latest, patience_ns });
            criteria.newest = criteria.newest.max(latest.0);
            self.stale |= path.judged_by != *stick;
            path.judged_by = *stick;
        }
        criteria
    }

    /// Judges one chunk by its latest transmission. `taken_back` is true if it had been acknowledged: a SACK that was
    /// overtaken by a later one revokes what the next one reports again, so the time is counted from there.
    fn judge(
        &mut self,
        (path, taken_back): (PathIndex, bool),
        sent: (Time, Tsn),
        criteria: &Criteria,
    ) -> Verdict {
        #[cfg(test)]
        {
            self.judgements += 1;
        }
        if sent.0 > criteria.newest {
            return Verdict::TooNew;
        }
        let Some(stick) = criteria.of[path].filter(|stick| is_before(sent, stick.latest)) else {
            return Verdict::Waits;
        };
        let since = if taken_back { self.path(path).taken_back.max(sent.0) } else { sent.0 };
        let at = Time::from_nanos(since.as_nanos().saturating_add(stick.patience_ns));
        if at <= criteria.now {
            return Verdict::Lost;
        }
        self.first_late = self.first_late.min(at);
        let path = self.path(path);
        path.deadline = path.deadline.max(Some(at));
        Verdict::Waits
    }

    /// Forgets a path that is removed.
    pub(crate) fn forget(&mut self, path: PathIndex) {
        self.learnt.forget(path);
        self.paths.reset(path);
        self.stale = true;
    }

    /// Ends undo states when it is too late for proof.
    fn settle_undo(&mut self) {
        if !self.paths.iter().any(|path| path.spurious.is_open()) {
            return;
        }
        let round_trip_ns = self.round_trip_ns();
        for path in self.paths.iter_mut() {
            if let Some((latest, _)) = path.latest {
                path.spurious.settle(latest, round_trip_ns);
            }
        }
    }
}

impl PathRack {
    /// Judges the latest time-out after a SACK.
    fn judge_timeout(&mut self, cumulative: Tsn, can_ask: bool, ack: &mut PathAck) {
        let elsewhere = self.probing.take_answer(cumulative);
        if let Some((at, tsn)) = elsewhere
            && !self.frto.holds(at, tsn, true)
        {
            self.offer(at, tsn, Answer::Elsewhere);
        }
        // New data takes the other path too, and would answer nothing.
        let can_ask = can_ask && elsewhere.is_none();
        match self.frto.decide(cumulative, can_ask) {
            Decision::Wait => {}
            Decision::Ask => ack.asks = can_ask,
            Decision::Right(Some((at, tsn))) => {
                self.offer(at, tsn, if elsewhere.is_some() { Answer::Elsewhere } else { Answer::Again });
            }
            Decision::Right(None) => {}
            Decision::Needless => {
                self.spurious.close();
                self.on_undone();
                ack.undo = true;
            }
        }
    }
}

/// The parts of a send window that loss detection by time works on.
#[derive(Debug)]
pub(crate) struct ByTime<'a> {
    rack: &'a mut Rack,
    outstanding: &'a mut Outstanding,
    gaps: &'a Gaps,
}

impl SendWindow {
    /// Returns what loss detection by time works on, or `None` with miss indications.
    #[inline]
    pub(crate) fn by_time(&mut self) -> Option<ByTime<'_>> {
        let Self { rack, outstanding, gaps, .. } = self;
        rack.as_deref_mut().map(|rack| ByTime { rack, outstanding, gaps })
    }
}

/// After a SACK or a deadline.
impl ByTime<'_> {
    /// Draws the conclusions after a SACK or a deadline: what is lost, whether recovery continues, and whether
    /// reactions were spurious. `news` is `None` if a SACK repeats the previous one for every chunk.
    pub(crate) fn conclude(&mut self, now: Time, news: Option<Newly>, acks: &mut PerPath<PathAck>) {
        let Self { rack, outstanding, .. } = self;
        let cumulative = outstanding.cumulative_ack();
        // An overdue chunk may have been sent before a retransmission that was acknowledged: there is no gap then, and
        // nothing in the log any more.
        let mut late = false;
        let can_ask = rack.can_ask;
        let moment = rack.moment(outstanding.next_tsn());
        for (path, ack) in rack.paths.iter_mut().zip(acks.iter_mut()) {
            path.judge_timeout(cumulative, can_ask, ack);
            late |= path.settle(now);
            if core::mem::take(&mut path.needless) {
                path.widen(cumulative, moment.tsn);
            }
            path.on_cumulative(cumulative, moment, ack);
            late |= path.deadline.is_some();
        }
        rack.settle_undo();
        rack.judge_round_trips(acks);
        if let Some(newly) = news {
            self.count_behind_gaps(&newly);
            self.rack.stale = true;
        }
        if late || !(self.gaps.is_empty() && self.rack.log.is_empty()) {
            self.find_lost(now, acks);
        }
        for (path, ack) in self.rack.paths.iter_mut().zip(acks.iter_mut()) {
            if path.spurious.take_refuted() {
                path.on_undone();
                path.frto.end();
                ack.undo = true;
            }
            ack.in_recovery = path.in_recovery();
        }
    }

    /// Counts how much is acknowledged beyond a gap (RFC 8985 section 6.2 step 4). Late data of another path makes no
    /// gap in this one, also if that path is removed, or if the data is retransmitted on this one.
    fn count_behind_gaps(&mut self, newly: &Newly) {
        let Self { rack, outstanding, gaps } = self;
        let mut found = PerPath::<Gap>::default();
        if let Some(path) = outstanding.only_path() {
            let first = (!gaps.is_empty()).then(|| outstanding.abandoned_first(LOOKED_AT_MAX));
            found[path] = Gap { first, behind: outstanding.gap_acked_bytes() };
        } else {
            let named = gaps.last().map_or(0, |last| last + 1);
            for (index, record) in outstanding.range(0, named.min(LOOKED_AT_MAX)).enumerate() {
                if record.has(ORPHANED) {
                    continue;
                }
                let gap = &mut found[record.path];
                match (record.state(), gap.first) {
                    (State::GapAcked | State::Kept | State::Freed, Some(_)) => {
                        gap.behind += u32::from(record.len)
                    }
                    (State::GapAcked | State::Kept | State::Freed, None) | (State::Abandoned, _) => {}
                    // What the path delivered was sent before that was retransmitted here.
                    _ if record.has(MOVED) => {}
                    (_, first) => gap.first = first.or(Some(index)),
                }
            }
        }
        for ((path, gap), newly) in rack.paths.iter_mut().zip(found).zip(newly) {
            let reports = gap.first.zip(*newly).is_some_and(|(first, newly)| newly > first);
            path.beyond_gap.update(gap.first.map(|index| outstanding.tsn(index)), gap.behind, reports);
        }
    }

    /// Finds lost chunks (RFC 8985 section 6.2 step 5): first those sent once, in the order of TSN and time, then
    /// retransmissions, in the order of time. If nothing new is known since the last time, and nothing became overdue
    /// meanwhile, the result would be the same.
    fn find_lost(&mut self, now: Time, acks: &mut PerPath<PathAck>) {
        let criteria = self.rack.criteria(now);
        if !self.rack.stale && now < self.rack.first_late {
            return;
        }
        self.rack.stale = false;
        self.rack.first_late = Time::MAX;
        self.rack.paths.iter_mut().for_each(|path| path.deadline = None);
        self.find_lost_once(&criteria, acks);
        self.find_lost_again(&criteria, acks);
    }

    fn find_lost_once(&mut self, criteria: &Criteria, acks: &mut PerPath<PathAck>) {
        let gaps = self.gaps;
        let mut judged = Some(self.rack.judged);
        let mut left = LOOKED_AT_MAX;
        'holes: for hole in gaps.holes(self.outstanding.len()) {
            for index in hole.start.max(self.rack.judged)..hole.end {
                let Some(record) = self.outstanding.get(index) else { break 'holes };
                // The latest SACK had no room for this chunk and the following ones.
                if self.outstanding.is_unnamed(index) {
                    self.rack.judged = judged.take().unwrap_or(self.rack.judged);
                    self.let_go(index, criteria, acks);
                    break 'holes;
                }
                let open = matches!(record.state(), State::InFlight | State::Overdue);
                if open && !record.has(RESENT) {
                    match self.judge_once(index, criteria) {
                        Verdict::TooNew => break 'holes,
                        Verdict::Waits => self.rack.judged = judged.take().unwrap_or(self.rack.judged),
                        Verdict::Lost => self.mark(index, acks),
                    }
                }
                judged = judged.map(|_| index + 1);
                left -= usize::from(judged.is_none());
                if left == 0 {
                    break 'holes;
                }
            }
        }
        self.rack.judged = judged.unwrap_or(self.rack.judged);
    }

    /// Judges a chunk that was sent once.
    fn judge_once(&mut self, index: usize, criteria: &Criteria) -> Verdict {
        let Some(record) = self.outstanding.get(index) else { return Verdict::Waits };
        let path = (record.path, record.has(ACKED_BEFORE));
        let sent = self.outstanding.sent_at(index).map(|at| (at, self.outstanding.tsn(index)));
        sent.map_or(Verdict::Waits, |sent| self.rack.judge(path, sent, criteria))
    }

    /// Removes overdue chunks that were sent once from the flight, even if no SACK has room to report whether they
    /// arrived: they have left the network. Otherwise a window that has shrunk could be full of them, and nothing
    /// would be sent that SACKs could answer.
    fn let_go(&mut self, from: usize, criteria: &Criteria, acks: &mut PerPath<PathAck>) {
        let from = from.max(self.rack.overdue);
        self.rack.overdue = from + LOOKED_AT_MAX;
        for index in from..from + LOOKED_AT_MAX {
            let open = self.outstanding.get(index).filter(|_| self.outstanding.is_unnamed(index));
            let Some(record) = open else {
                self.rack.overdue = index;
                break;
            };
            if record.state() != State::InFlight || record.has(RESENT) {
                continue;
            }
            if !matches!(self.judge_once(index, criteria), Verdict::Lost) {
                self.rack.overdue = index;
                break;
            }
            self.set_overdue(index, acks);
        }
    }

    fn find_lost_again(&mut self, criteria: &Criteria, acks: &mut PerPath<PathAck>) {
        let Self { rack, outstanding, .. } = self;
        rack.log.prune(|tsn, number| outstanding.is_sent_as(tsn, number).is_some());
        let mut left = LOOKED_AT_MAX;
        for place in 0..self.rack.log.len() {
            let Some((number, tsn, at)) = self.rack.log.entry(place) else { break };
            let Some(index) = self.outstanding.is_sent_as(tsn, number) else { continue };
            let Some(record) = self.outstanding.get(index) else { continue };
            let path = (record.path, record.has(ACKED_BEFORE));
            match self.rack.judge(path, (at, tsn), criteria) {
                Verdict::TooNew => break,
                Verdict::Waits if left == 0 => break,
                Verdict::Waits => left -= 1,
                Verdict::Lost if self.outstanding.is_unnamed(index) => self.set_overdue(index, acks),
                Verdict::Lost => self.mark(index, acks),
            }
        }
    }

    fn mark(&mut self, index: usize, acks: &mut PerPath<PathAck>) {
        let moment = self.rack.moment(self.outstanding.next_tsn());
        let Some(sent) = self.transmission(index) else { return };
        let Some(record) = self.outstanding.get_mut(index) else { return };
        record.set(FAST_MARKED);
        let (len, path) = (record.chunk_len(), record.path);
        let was_overdue = record.state() == State::Overdue;
        self.outstanding.change(index, State::Marked);
        let ack = &mut acks[path];
        ack.lost_bytes += len;
        ack.lost_chunks += 1;
        ack.reported_bytes += if was_overdue { len } else { 0 };
        let tsn = self.outstanding.tsn(index);
        self.rack.path(path).on_lost(tsn, sent, moment, ack);
    }

    /// Marks a chunk as overdue: no SACK has room to report its fate.
    fn set_overdue(&mut self, index: usize, acks: &mut PerPath<PathAck>) {
        let in_flight = |record: &&Record| record.state() == State::InFlight;
        let Some(record) = self.outstanding.get(index).filter(in_flight) else { return };
        acks[record.path].overdue_bytes += record.chunk_len();
        self.outstanding.change(index, State::Overdue);
    }

    /// Returns the latest transmission of a chunk.
    fn transmission(&self, index: usize) -> Option<Sent> {
        let record = self.outstanding.get(index)?;
        let again = record.has(RESENT).then(|| Sent::Again(self.rack.log.whole(record.resent)));
        Some(again.unwrap_or_else(|| Sent::Once(self.outstanding.tsn(index))))
    }
}

/// For timers and other events.
impl ByTime<'_> {
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
            state.probing.ask_with(tsn);
            undo_marked(state, tsn, record, again);
        }))
    }

    /// Handles an expiry of T3-rtx while the peer reports a closed window: the same chunks probe the window, which is
    /// no loss.
    pub(crate) fn on_window_probe(&mut self, path: PathIndex, room: Room) -> u32 {
        self.on_path_refused(path);
        let probing = &mut self.rack.path(path).probing;
        mark_first(self.outstanding, path, room, |tsn, _| probing.ask_with(tsn))
    }

    /// Returns the path of the lowest chunk, which may be retransmitted to learn its fate. Called when the peer's
    /// window has opened by a SACK that acknowledges nothing. Returns `None` if the chunk was sent so recently that
    /// the answer is still in flight.
    pub(crate) fn path_to_ask(&self, now: Time) -> Option<PathIndex> {
        let lowest = self.outstanding.get(0).filter(|record| record.state() == State::InFlight)?;
        let sent_at = match lowest.has(RESENT) {
            true => self.rack.log.at(lowest.resent),
            false => self.outstanding.sent_at(0),
        };
        let answer_ns = u128::from(self.rack.round_trip_ns() / 8 * ANSWER_EIGHTHS);
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
    pub(crate) fn on_path_refused(&mut self, path: PathIndex) {
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

    /// Marks the data of a tail-loss probe without new data: the highest chunk in flight on the path (RFC 8985 section
    /// 7.3) among those that SACKs have room to report, unless `may_probe` denies it. Returns its bytes, which leave the
    /// flight.
    pub(crate) fn on_probe(&mut self, path: PathIndex, may_probe: impl Fn(Tsn, &Record) -> bool) -> u32 {
        let outstanding = &mut *self.outstanding;
        let in_flight = |index: &usize| {
            outstanding
                .get(*index)
                .is_some_and(|record| record.path == path && record.state() == State::InFlight)
        };
        // SACKs have no room to report an answer for the others.
        let mut named = (0..outstanding.len()).rev().filter(|index| !outstanding.is_unnamed(*index));
        let Some(index) = named.find(in_flight) else { return 0 };
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
        if record.path != path || record.is_settled() {
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
