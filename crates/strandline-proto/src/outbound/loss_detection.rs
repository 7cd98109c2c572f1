//! Loss detection by time, with the state in [`Rack`]: after each SACK, at its deadline, after T3-rtx, and for tail-loss
//! probes.
//!
//! | function | called |
//! |---|---|
//! | [`conclude`] | after each SACK, and when [`Rack::deadline`] passes: finds lost chunks |
//! | [`on_path_refused`], [`on_shrunk`] | for retransmissions without a loss; after an ECN mark |
//! | [`on_timeout`], [`on_path_marked`] | after T3-rtx; [`Frto`](super::frto::Frto) detects whether it was spurious |
//! | [`Asked`] | finds the answer to a time-out or window probe on another path |
//! | [`on_window_probe`], [`path_to_ask`] | to probe a peer that had no room |
//! | [`on_probe`] | for tail-loss probes |

use super::ack::PathAck;
use super::asked::Asked;
use super::congestion_event::Sent;
use super::frto::Decision;
use super::gaps::Gaps;
use super::outstanding::{CREDITED, FAST_MARKED, Outstanding, PROBE, RESENT, Record, State};
use super::rack::{Answer, LatestProbes, PathRack, Rack, Yardstick, is_before};
use crate::number::Tsn;
use crate::path_index::{PathIndex, PerPath};
use crate::time::Time;

/// Number of packets acknowledged beyond a gap from which on reordering is unlikely (DupThresh).
const PACKETS_ACKED: u32 = 3;

/// Maximum number of chunks examined beyond the first one that is not lost yet. Later ones wait until it is judged,
/// so that a SACK costs little however many chunks are missing.
const LOOKED_AT_MAX: usize = 4096;

/// Eighths of the round-trip time within which the answer to a chunk is still in flight.
const ANSWER_EIGHTHS: u64 = 7;

/// Draws the conclusions after a SACK or a deadline: what is lost, whether recovery continues, and whether reactions
/// were spurious. `news` contains for each path the highest index that the SACK reported for the first time beyond a
/// gap; `None` if it repeats the previous SACK for every chunk.
pub(super) fn conclude(
    outstanding: &mut Outstanding,
    gaps: &Gaps,
    now: Time,
    news: Option<Newly>,
    acks: &mut PerPath<PathAck>,
) {
    let Some(mut rack) = outstanding.rack.take() else { return };
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
        rack.count_behind_gaps(outstanding, gaps, newly);
        rack.stale = true;
    }
    if late || !(gaps.is_empty() && rack.log.is_empty()) {
        rack.find_lost(outstanding, gaps, now, acks);
    }
    for (path, ack) in rack.paths.iter_mut().zip(acks.iter_mut()) {
        if path.spurious.take_refuted() {
            path.on_undone();
            path.frto.end();
            ack.undo = true;
        }
        ack.in_recovery = path.in_recovery();
    }
    outstanding.rack = Some(rack);
}

impl PathRack {
    /// Judges the latest time-out after a SACK.
    fn judge_timeout(&mut self, cumulative: Tsn, can_ask: bool, ack: &mut PathAck) {
        let elsewhere = self.asked.take_answer(cumulative);
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

/// See [`conclude`].
pub(super) type Newly = PerPath<Option<usize>>;

/// A gap in the data of a path.
#[derive(Debug, Clone, Copy, Default)]
struct Gap {
    /// Index of the first missing chunk.
    first: Option<usize>,
    /// Bytes acknowledged beyond it.
    behind: u32,
}

type Yardsticks = PerPath<Option<Yardstick>>;

/// The judgement of one chunk.
enum Verdict {
    /// It was sent after everything that has been acknowledged, on any path.
    TooNew,
    Waits,
    Lost,
}

impl Rack {
    /// Counts how much is acknowledged beyond a gap (RFC 8985 section 6.2 step 4). Late data of another path makes no
    /// gap in this one.
    fn count_behind_gaps(&mut self, outstanding: &Outstanding, gaps: &Gaps, newly: Newly) {
        let mut found = PerPath::<Gap>::default();
        if let Some(path) = outstanding.only_path() {
            let first = (!gaps.is_empty()).then_some(0);
            found[path] = Gap { first, behind: outstanding.gap_acked_bytes() };
        } else {
            let named = gaps.last().map_or(0, |last| last + 1);
            for (index, record) in outstanding.range(0, named.min(LOOKED_AT_MAX)).enumerate() {
                let gap = &mut found[record.path];
                match (record.state(), gap.first) {
                    (State::GapAcked, Some(_)) => gap.behind += u32::from(record.len),
                    (State::GapAcked, None) => {}
                    (_, first) => gap.first = first.or(Some(index)),
                }
            }
        }
        for ((path, gap), newly) in self.paths.iter_mut().zip(found).zip(newly) {
            let reports = gap.first.zip(newly).is_some_and(|(first, newly)| newly > first);
            path.beyond_gap.update(gap.first.map(|index| outstanding.tsn(index)), gap.behind, reports);
        }
    }

    /// Returns the criteria that chunks in flight are judged by.
    fn yardsticks(&mut self) -> (Yardsticks, Time) {
        let mut sticks = Yardsticks::default();
        let mut newest = Time::ZERO;
        for (stick, path) in sticks.iter_mut().zip(self.paths.iter_mut()) {
            let Some(latest) = path.latest else { continue };
            let many_acked = path.beyond_gap.sacks >= PACKETS_ACKED
                || (self.packet > 0 && path.beyond_gap.bytes >= PACKETS_ACKED * self.packet);
            let patience_ns = path.rtt_ns.max(1) + path.reordering_window_ns(many_acked);
            *stick = Some(Yardstick { latest, patience_ns });
            newest = newest.max(latest.0);
            self.stale |= path.judged_by != *stick;
            path.judged_by = *stick;
        }
        (sticks, newest)
    }

    /// Judges one chunk. `taken_back` is true if it had been acknowledged: a SACK that was overtaken by a later one
    /// revokes what the next one reports again, so the time is counted from there.
    fn judge(
        &mut self,
        (path, taken_back): (PathIndex, bool),
        sent: (Time, Tsn),
        (sticks, newest): (&Yardsticks, Time),
        now: Time,
    ) -> Verdict {
        #[cfg(test)]
        {
            self.judgements += 1;
        }
        if sent.0 > newest {
            return Verdict::TooNew;
        }
        let Some(stick) = sticks[path].filter(|stick| is_before(sent, stick.latest)) else {
            return Verdict::Waits;
        };
        let since = if taken_back { self.path(path).taken_back.max(sent.0) } else { sent.0 };
        let at = Time::from_nanos(since.as_nanos().saturating_add(stick.patience_ns));
        if at <= now {
            return Verdict::Lost;
        }
        self.first_late = self.first_late.min(at);
        let path = self.path(path);
        path.deadline = path.deadline.max(Some(at));
        Verdict::Waits
    }

    /// Finds lost chunks (RFC 8985 section 6.2 step 5): first those sent once, in the order of TSN and time, then
    /// retransmissions, in the order of time. If nothing new is known since the last time, and nothing became overdue
    /// meanwhile, the result would be the same.
    fn find_lost(
        &mut self,
        outstanding: &mut Outstanding,
        gaps: &Gaps,
        now: Time,
        acks: &mut PerPath<PathAck>,
    ) {
        let (sticks, newest) = self.yardsticks();
        if !self.stale && now < self.first_late {
            return;
        }
        self.stale = false;
        self.first_late = Time::MAX;
        self.paths.iter_mut().for_each(|path| path.deadline = None);
        let mut judged = Some(self.judged);
        let mut left = LOOKED_AT_MAX;
        'holes: for hole in gaps.holes(outstanding.len()) {
            for index in hole.start.max(self.judged)..hole.end {
                let Some(record) = outstanding.get(index) else { break 'holes };
                // The latest SACK had no room for this chunk and the following ones.
                if outstanding.is_unnamed(index) {
                    self.judged = judged.take().unwrap_or(self.judged);
                    self.let_go(outstanding, index, now, (&sticks, newest), acks);
                    break 'holes;
                }
                let open = matches!(record.state(), State::InFlight | State::Overdue);
                if open && !record.has(RESENT) {
                    let tsn = outstanding.tsn(index);
                    let sent = outstanding.sent_at(index).map(|at| (at, tsn));
                    let path = (record.path, record.has(CREDITED));
                    match sent.map_or(Verdict::Waits, |sent| self.judge(path, sent, (&sticks, newest), now)) {
                        Verdict::TooNew => break 'holes,
                        Verdict::Waits => self.judged = judged.take().unwrap_or(self.judged),
                        Verdict::Lost => self.mark(outstanding, index, acks),
                    }
                }
                judged = judged.map(|_| index + 1);
                left -= usize::from(judged.is_none());
                if left == 0 {
                    break 'holes;
                }
            }
        }
        self.judged = judged.unwrap_or(self.judged);
        self.find_lost_again(outstanding, now, (&sticks, newest), acks);
    }

    /// Removes overdue chunks that were sent once from the flight, even if no SACK has room to report whether they
    /// arrived: they have left the network. Otherwise a window that has shrunk could be full of them, and nothing
    /// would be sent that SACKs could answer.
    fn let_go(
        &mut self,
        outstanding: &mut Outstanding,
        from: usize,
        now: Time,
        sticks: (&Yardsticks, Time),
        acks: &mut PerPath<PathAck>,
    ) {
        let from = from.max(self.overdue);
        self.overdue = from + LOOKED_AT_MAX;
        for index in from..from + LOOKED_AT_MAX {
            let open = outstanding.get(index).filter(|_| outstanding.is_unnamed(index));
            let Some(record) = open else {
                self.overdue = index;
                break;
            };
            if record.state() != State::InFlight || record.has(RESENT) {
                continue;
            }
            let path = (record.path, record.has(CREDITED));
            let sent = outstanding.sent_at(index).map(|at| (at, outstanding.tsn(index)));
            if !matches!(sent.map(|sent| self.judge(path, sent, sticks, now)), Some(Verdict::Lost)) {
                self.overdue = index;
                break;
            }
            overdue(outstanding, index, acks);
        }
    }

    fn find_lost_again(
        &mut self,
        outstanding: &mut Outstanding,
        now: Time,
        sticks: (&Yardsticks, Time),
        acks: &mut PerPath<PathAck>,
    ) {
        self.log.prune(|tsn, number| outstanding.is_sent_as(tsn, number).is_some());
        let mut left = LOOKED_AT_MAX;
        for place in 0..self.log.len() {
            let Some((number, tsn, at)) = self.log.entry(place) else { break };
            let Some(index) = outstanding.is_sent_as(tsn, number) else { continue };
            let Some(record) = outstanding.get(index) else { continue };
            let path = (record.path, record.has(CREDITED));
            match self.judge(path, (at, tsn), sticks, now) {
                Verdict::TooNew => break,
                Verdict::Waits if left == 0 => break,
                Verdict::Waits => left -= 1,
                Verdict::Lost if outstanding.is_unnamed(index) => overdue(outstanding, index, acks),
                Verdict::Lost => self.mark(outstanding, index, acks),
            }
        }
    }

    fn mark(&mut self, outstanding: &mut Outstanding, index: usize, acks: &mut PerPath<PathAck>) {
        let moment = self.moment(outstanding.next_tsn());
        let Some(sent) = self.transmission(outstanding, index) else { return };
        let Some(record) = outstanding.get_mut(index) else { return };
        record.set(FAST_MARKED);
        let (len, path) = (record.chunk_len(), record.path);
        let was_overdue = record.state() == State::Overdue;
        outstanding.change(index, State::Marked);
        let ack = &mut acks[path];
        ack.lost_bytes += len;
        ack.lost_chunks += 1;
        ack.reported_bytes += if was_overdue { len } else { 0 };
        let tsn = outstanding.tsn(index);
        self.path(path).on_lost(tsn, sent, moment, ack);
    }

    /// Returns the latest transmission of a chunk.
    fn transmission(&self, outstanding: &Outstanding, index: usize) -> Option<Sent> {
        let record = outstanding.get(index)?;
        let again = record.has(RESENT).then(|| Sent::Again(self.log.whole(record.resent)));
        Some(again.unwrap_or_else(|| Sent::Once(outstanding.tsn(index))))
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

/// Marks a chunk as overdue: no SACK has room to report its fate.
fn overdue(outstanding: &mut Outstanding, index: usize, acks: &mut PerPath<PathAck>) {
    let Some(record) = outstanding.get(index).filter(|record| record.state() == State::InFlight) else {
        return;
    };
    acks[record.path].overdue_bytes += record.chunk_len();
    outstanding.change(index, State::Overdue);
}

/// Handles an expiry of T3-rtx without another path: marks as many of the lowest chunks as fit a packet. Answers show
/// whether the others are lost ([`Frto`](super::frto::Frto)). Returns the bytes marked, including headers and
/// padding. `again` is true if nothing was acknowledged since the previous time-out, so that the test continues (RFC
/// 5682 section 3.2). Returns `None` if there was an answer that did not help, so that all chunks must be marked.
pub(super) fn on_timeout(outstanding: &mut Outstanding, path: PathIndex, again: bool) -> Option<u32> {
    let tried = |rack: &mut Rack| rack.path(path).timed_out.is_some();
    let mut rack = outstanding.rack.take_if(|rack| again || !tried(rack))?;
    let moment = rack.moment(outstanding.next_tsn());
    let packet = rack.packet_len();
    let state = rack.path(path);
    state.on_timeout(moment);
    state.begin_undo(again);
    state.frto.begin(moment.tsn.previous());
    let bytes = mark_first(outstanding, path, packet, |tsn, record| {
        state.asked.ask_with(tsn);
        undo_marked(state, tsn, record, again);
    });
    outstanding.rack = Some(rack);
    Some(bytes)
}

/// Handles an expiry of T3-rtx while the peer reports a closed window: the same chunks probe the window, which is no
/// loss. Returns `None` with loss detection by miss indications.
pub(super) fn on_window_probe(outstanding: &mut Outstanding, path: PathIndex) -> Option<u32> {
    on_path_refused(outstanding, path);
    let mut rack = outstanding.rack.take()?;
    let packet = rack.packet_len();
    let asked = &mut rack.path(path).asked;
    let bytes = mark_first(outstanding, path, packet, |tsn, _| asked.ask_with(tsn));
    outstanding.rack = Some(rack);
    Some(bytes)
}

/// Returns the path of the lowest chunk, which may be retransmitted to learn its fate. Called when the peer's window
/// has opened by a SACK that acknowledges nothing. Returns `None` if the chunk was sent so recently that the answer
/// is still in flight.
pub(super) fn path_to_ask(outstanding: &Outstanding, now: Time) -> Option<PathIndex> {
    let lowest = outstanding.get(0).filter(|record| record.state() == State::InFlight)?;
    let rack = outstanding.rack.as_ref()?;
    let sent_at = match lowest.has(RESENT) {
        true => rack.log.at(lowest.resent),
        false => outstanding.sent_at(0),
    };
    let recent = sent_at
        .is_some_and(|at| now.since(at).as_nanos() < u128::from(rack.round_trip_ns() / 8 * ANSWER_EIGHTHS));
    (!recent).then_some(lowest.path)
}

/// Marks as many of the path's lowest chunks as fit a packet. `on_mark` sees each before. Returns the bytes that
/// leave the flight.
fn mark_first(
    outstanding: &mut Outstanding,
    path: PathIndex,
    packet: u32,
    mut on_mark: impl FnMut(Tsn, &Record),
) -> u32 {
    let (mut room, mut bytes) = (packet, 0);
    for index in 0..outstanding.len() {
        let tsn = outstanding.tsn(index);
        let Some(record) = outstanding.get_mut(index) else { break };
        if record.path != path || record.state() == State::GapAcked {
            continue;
        }
        let len = record.chunk_len();
        if len > room && room < packet {
            break;
        }
        room = room.saturating_sub(len);
        on_mark(tsn, record);
        record.clear(FAST_MARKED);
        match record.state() {
            State::InFlight => bytes += len,
            State::Overdue => {}
            State::Marked | State::GapAcked => continue,
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

/// Handles the marking of everything in flight on the path, which is retransmitted, on another path if there is one.
/// If it was only late, duplicates will show it. `again` is as in [`on_timeout`].
pub(super) fn on_path_marked(outstanding: &mut Outstanding, path: PathIndex, again: bool) {
    let Some(mut rack) = outstanding.rack.take() else { return };
    let moment = rack.moment(outstanding.next_tsn());
    let state = rack.path(path);
    state.on_timeout(moment);
    state.begin_undo(again);
    for index in 0..outstanding.len() {
        let tsn = outstanding.tsn(index);
        let Some(record) = outstanding.get(index) else { break };
        if record.path == path && record.state() == State::Marked {
            // Earlier marks are not distinguished from new ones.
            undo_marked(state, tsn, record, true);
        }
    }
    state.frto.end();
    state.deadline = None;
    rack.stale = true;
    outstanding.rack = Some(rack);
}

/// Handles the marking of everything in flight on the path without a sign of loss. Duplicates no longer show whether
/// an earlier loss was spurious.
pub(super) fn on_path_refused(outstanding: &mut Outstanding, path: PathIndex) {
    let Some(rack) = &mut outstanding.rack else { return };
    let state = rack.path(path);
    state.probes = LatestProbes::default();
    state.spurious.close();
    state.frto.end();
    state.asked = Asked::default();
    state.deadline = None;
    rack.stale = true;
}

/// Handles a reduction of a path's window for a mark: losses of data sent so far belong to the same event.
pub(super) fn on_shrunk(outstanding: &mut Outstanding, path: PathIndex) {
    let next = outstanding.next_tsn();
    let Some(rack) = &mut outstanding.rack else { return };
    let moment = rack.moment(next);
    rack.path(path).on_shrunk(moment);
}

/// Marks the data of a tail-loss probe without new data: the highest chunk in flight on the path (RFC 8985 section
/// 7.3) among those that SACKs have room to report. Returns its bytes, which leave the flight.
pub(super) fn on_probe(outstanding: &mut Outstanding, path: PathIndex) -> u32 {
    let in_flight = |outstanding: &Outstanding, index: &usize| {
        outstanding.get(*index).is_some_and(|record| record.path == path && record.state() == State::InFlight)
    };
    // SACKs have no room to report an answer for the others.
    let mut named = (0..outstanding.len()).rev().filter(|index| !outstanding.is_unnamed(*index));
    let Some(index) = named.find(|index| in_flight(outstanding, index)) else { return 0 };
    let tsn = outstanding.tsn(index);
    let sent = outstanding.rack.as_ref().and_then(|rack| rack.transmission(outstanding, index));
    let Some(record) = outstanding.get_mut(index) else { return 0 };
    record.set(FAST_MARKED | PROBE);
    let len = record.chunk_len();
    outstanding.change(index, State::Marked);
    if let Some((rack, sent)) = outstanding.rack.as_mut().zip(sent) {
        rack.path(path).note_probe(tsn, sent);
    }
    len
}
