//! Finding what is lost by what [`Rack`] knows: after each SACK, at its deadline, after T3-rtx, and what to send as a
//! tail-loss probe.
//!
//! | | |
//! |---|---|
//! | [`conclude`] | after each SACK, and when [`Rack::deadline`] passes: what is lost by that |
//! | [`on_path_refused`], [`on_shrunk`] | what goes again was not lost; the network marked it |
//! | [`on_timeout`], [`on_path_marked`] | T3-rtx; whether it was needless decides [`Frto`](super::frto::Frto) |
//! | [`on_window_probe`], [`path_to_ask`] | what asks a peer that had no room |
//! | [`on_probe`] | tail-loss probes |

use super::ack::{self, PathAck};
use super::congestion_event::Sent;
use super::gaps::Gaps;
use super::outstanding::{CREDITED, FAST_MARKED, Outstanding, PROBE, RESENT, Record, State};
use super::rack::{LatestProbes, PathRack, Rack, Yardstick, is_before};
use crate::config::PATHS_MAX;
use crate::number::Tsn;
use crate::time::Time;

/// Packets acknowledged beyond a gap from which on reordering is no longer taken for likely (DupThresh).
const PACKETS_ACKED: u32 = 3;

/// Chunks looked at beyond the first that is only late so far, at most: those after them wait until it is judged. So a SACK
/// costs little however many chunks are missing.
const LOOKED_AT_MAX: usize = 4096;

/// A SACK has been taken in, or a deadline has passed: what is lost, whether recovery goes on, and whether what was done
/// was needless. `news`: of each path, the highest index that the SACK named for the first time behind a gap; `None` if it says of no
/// chunk anything but the one before it.
pub(super) fn conclude(
    outstanding: &mut Outstanding,
    gaps: &Gaps,
    now: Time,
    news: Option<Newly>,
    acks: &mut [PathAck; PATHS_MAX],
) {
    let Some(mut rack) = outstanding.rack.take() else { return };
    let cumulative = outstanding.cumulative_ack();
    // What is late was sent before something that was sent again, perhaps: there is no gap then, and nothing in the log any more.
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

/// See [`conclude`].
pub(super) type Newly = [Option<usize>; PATHS_MAX];

/// A gap in what went to a path.
#[derive(Debug, Clone, Copy, Default)]
struct Gap {
    /// The index of the first chunk that is missing.
    first: Option<usize>,
    /// Bytes acknowledged behind it.
    behind: u32,
}

type Yardsticks = [Option<Yardstick>; PATHS_MAX];

/// What became of one chunk.
enum Verdict {
    /// It was sent after all that has been acknowledged, on any path.
    TooNew,
    Waits,
    Lost,
}

impl Rack {
    /// How much is acknowledged behind a gap (RFC 8985 section 6.2 step 4). What another path brings late makes no gap in what went to this
    /// one.
    fn count_behind_gaps(&mut self, outstanding: &Outstanding, gaps: &Gaps, newly: Newly) {
        let mut found = [Gap::default(); PATHS_MAX];
        if let Some(gap) = outstanding.only_path().and_then(|path| found.get_mut(path)) {
            let first = (!gaps.is_empty()).then_some(0);
            *gap = Gap { first, behind: outstanding.gap_acked_bytes() };
        } else {
            let named = gaps.last().map_or(0, |last| last + 1);
            for (index, record) in outstanding.range(0, named.min(LOOKED_AT_MAX)).enumerate() {
                let Some(gap) = found.get_mut(usize::from(record.path) % PATHS_MAX) else { continue };
                match (record.state(), gap.first) {
                    (State::GapAcked, Some(_)) => gap.behind += u32::from(record.len),
                    (State::GapAcked, None) => {}
                    (_, first) => gap.first = first.or(Some(index)),
                }
            }
        }
        for ((path, gap), newly) in self.paths.iter_mut().zip(found).zip(newly) {
            path.behind_gap = gap.behind;
            match (gap.first, newly) {
                (Some(first), Some(newly)) if newly > first => {
                    path.gap_sacks = path.gap_sacks.saturating_add(1)
                }
                _ if gap.behind == 0 => path.gap_sacks = 0,
                _ => {}
            }
        }
    }

    /// Those by which what is in flight is judged now.
    fn yardsticks(&mut self) -> (Yardsticks, Time) {
        let mut sticks = [None; PATHS_MAX];
        let mut newest = Time::ZERO;
        for (stick, path) in sticks.iter_mut().zip(&mut self.paths) {
            let Some(latest) = path.latest else { continue };
            let many_acked = path.gap_sacks >= PACKETS_ACKED
                || (self.packet > 0 && path.behind_gap >= PACKETS_ACKED * self.packet);
            let patience_ns = path.rtt_ns.max(1) + path.reordering_window_ns(many_acked);
            *stick = Some(Yardstick { latest, patience_ns });
            newest = newest.max(latest.0);
            self.stale |= path.judged_by != *stick;
            path.judged_by = *stick;
        }
        (sticks, newest)
    }

    /// `taken_back`: it had been acknowledged. A SACK that was overtaken by a later one takes back what the next one names once more,
    /// so that the time is counted from there.
    fn judge(
        &mut self,
        (path, taken_back): (u8, bool),
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
        let stick = sticks.get(usize::from(path)).copied().flatten();
        let Some(stick) = stick.filter(|stick| is_before(sent, stick.latest)) else { return Verdict::Waits };
        let since = self.path(path).filter(|_| taken_back).map_or(sent.0, |path| path.taken_back.max(sent.0));
        let at = Time::from_nanos(since.as_nanos().saturating_add(stick.patience_ns));
        if at <= now {
            return Verdict::Lost;
        }
        self.first_late = self.first_late.min(at);
        if let Some(path) = self.path(path) {
            path.deadline = path.deadline.max(Some(at));
        }
        Verdict::Waits
    }

    /// RFC 8985 section 6.2 step 5: first what was sent once, in the order of TSN and time, then what was sent again, in
    /// the order of time. While nothing is known that was not known the last time, and nothing was to become late since then, all would be found
    /// as it was.
    fn find_lost(
        &mut self,
        outstanding: &mut Outstanding,
        gaps: &Gaps,
        now: Time,
        acks: &mut [PathAck; PATHS_MAX],
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
                // The latest SACK had no room for it and what follows.
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

    /// What was sent once and is late has left the network, also where no SACK has room to say whether it arrived: it is in flight no longer.
    /// Else a window that has shrunk could be full of it, and nothing would be sent that SACKs could answer.
    fn let_go(
        &mut self,
        outstanding: &mut Outstanding,
        from: usize,
        now: Time,
        sticks: (&Yardsticks, Time),
        acks: &mut [PathAck; PATHS_MAX],
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
        acks: &mut [PathAck; PATHS_MAX],
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

    fn mark(&mut self, outstanding: &mut Outstanding, index: usize, acks: &mut [PathAck; PATHS_MAX]) {
        let moment = self.moment(outstanding.next_tsn());
        let Some(sent) = self.transmission(outstanding, index) else { return };
        let Some(record) = outstanding.get_mut(index) else { return };
        record.set(FAST_MARKED);
        let (len, path) = (record.chunk_len(), record.path);
        let was_overdue = record.state() == State::Overdue;
        outstanding.change(index, State::Marked);
        let ack = ack::of(acks, path);
        ack.lost_bytes += len;
        ack.reported_bytes += if was_overdue { len } else { 0 };
        let tsn = outstanding.tsn(index);
        if let Some(path) = self.path(path) {
            path.on_lost(tsn, sent, moment, ack);
        }
    }

    /// The latest transmission of a chunk.
    fn transmission(&self, outstanding: &Outstanding, index: usize) -> Option<Sent> {
        let record = outstanding.get(index)?;
        let again = record.has(RESENT).then(|| Sent::Again(self.log.whole(record.resent)));
        Some(again.unwrap_or_else(|| Sent::Once(outstanding.tsn(index))))
    }

    /// Doubts end when it is too late for proof.
    fn settle_undo(&mut self) {
        if !self.paths.iter().any(|path| path.spurious.is_open()) {
            return;
        }
        let round_trip_ns = self.round_trip_ns();
        for path in &mut self.paths {
            if let Some((latest, _)) = path.latest {
                path.spurious.settle(latest, round_trip_ns);
            }
        }
    }
}

/// It is late, and no SACK has room to say more of it.
fn overdue(outstanding: &mut Outstanding, index: usize, acks: &mut [PathAck; PATHS_MAX]) {
    let Some(record) = outstanding.get(index).filter(|record| record.state() == State::InFlight) else {
        return;
    };
    ack::of(acks, record.path).overdue_bytes += record.chunk_len();
    outstanding.change(index, State::Overdue);
}

/// T3-rtx of a path expired and there is no other one to go to: as many of its lowest chunks as fit a packet are marked.
/// Whether the others are lost, answers tell ([`Frto`](super::frto::Frto)). Returns the bytes marked,
/// header and padding included. `again`: nothing was acknowledged since the time-out before, so that the question is the same still
/// (RFC 5682 section 3.2). `None`: there was an answer, and it did not help, so that all have to be marked.
pub(super) fn on_timeout(outstanding: &mut Outstanding, path: u8, again: bool) -> Option<u32> {
    let tried = |rack: &mut Rack| rack.path(path).is_some_and(|state| state.timed_out.is_some());
    let mut rack = outstanding.rack.take_if(|rack| again || !tried(rack))?;
    let moment = rack.moment(outstanding.next_tsn());
    let packet = rack.packet_len();
    let mut bytes = 0;
    if let Some(state) = rack.path(path) {
        state.on_timeout(moment);
        state.begin_undo(again);
        state.frto.begin(moment.tsn.previous());
        bytes = mark_first(outstanding, path, packet, |tsn, record| undo_marked(state, tsn, record, again));
    }
    outstanding.rack = Some(rack);
    Some(bytes)
}

/// T3-rtx of a path expired while the peer answers that its window is closed: the same chunks ask for it. That is no loss. `None` where
/// losses are found by miss indications.
pub(super) fn on_window_probe(outstanding: &mut Outstanding, path: u8) -> Option<u32> {
    let packet = outstanding.rack.as_ref()?.packet_len();
    on_path_refused(outstanding, path);
    Some(mark_first(outstanding, path, packet, |_, _| ()))
}

/// The peer's window was closed and has opened, and the SACK that says so acknowledges nothing: the path of the lowest chunk, which may
/// ask what became of it. `None` if it went so lately that the answer is on its way.
pub(super) fn path_to_ask(outstanding: &Outstanding, now: Time) -> Option<u8> {
    let lowest = outstanding.get(0).filter(|record| record.state() == State::InFlight)?;
    let rack = outstanding.rack.as_ref()?;
    let sent_at = match lowest.has(RESENT) {
        true => rack.log.at(lowest.resent),
        false => outstanding.sent_at(0),
    };
    let recent =
        sent_at.is_some_and(|at| now.since(at).as_nanos() < u128::from(rack.round_trip_ns() / 8 * 7));
    (!recent).then_some(lowest.path)
}

/// Marks as many of the lowest chunks of the path as fit a packet; `on_mark` sees each before. Returns the bytes that leave the flight.
fn mark_first(
    outstanding: &mut Outstanding,
    path: u8,
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

/// A chunk is marked by a time-out. `known`: if it was marked before, that is in the same doubt.
fn undo_marked(state: &mut PathRack, tsn: Tsn, record: &Record, known: bool) {
    if record.has(RESENT) || (record.state() == State::Marked && !known) {
        state.spurious.on_marked_again(tsn);
    } else {
        state.spurious.on_marked();
    }
}

/// Everything in flight on the path was marked: it goes again, on another path if there is one. It may have been late
/// only, which the peer tells by what comes twice. `again` as in [`on_timeout`].
pub(super) fn on_path_marked(outstanding: &mut Outstanding, path: u8, again: bool) {
    let path = path % PATHS_MAX as u8;
    let Some(mut rack) = outstanding.rack.take() else { return };
    let moment = rack.moment(outstanding.next_tsn());
    if let Some(state) = rack.path(path) {
        state.on_timeout(moment);
        state.begin_undo(again);
        for index in 0..outstanding.len() {
            let tsn = outstanding.tsn(index);
            let Some(record) = outstanding.get(index) else { break };
            if record.path == path && record.state() == State::Marked {
                // What was marked before is not told from what is marked now.
                undo_marked(state, tsn, record, true);
            }
        }
        state.frto.end();
        state.deadline = None;
    }
    rack.stale = true;
    outstanding.rack = Some(rack);
}

/// Everything in flight on the path was marked, and nothing says that it is lost. Whether an earlier loss was one, duplicates
/// don't tell any more.
pub(super) fn on_path_refused(outstanding: &mut Outstanding, path: u8) {
    let Some(rack) = &mut outstanding.rack else { return };
    let Some(state) = rack.path(path) else { return };
    state.probes = LatestProbes::default();
    state.spurious.close();
    state.frto.end();
    state.deadline = None;
    rack.stale = true;
}

/// The window of a path has shrunk because the network marked what was sent: what of that is lost belongs to the same event.
pub(super) fn on_shrunk(outstanding: &mut Outstanding, path: u8) {
    let next = outstanding.next_tsn();
    let Some(rack) = &mut outstanding.rack else { return };
    let moment = rack.moment(next);
    if let Some(state) = rack.path(path) {
        state.on_shrunk(moment);
    }
}

/// A tail-loss probe is to go and there is no new data for it: the highest chunk in flight on the path goes again
/// (RFC 8985 section 7.3), of those that SACKs have room to name. Returns its bytes, which have left the flight.
pub(super) fn on_probe(outstanding: &mut Outstanding, path: u8) -> u32 {
    let in_flight = |outstanding: &Outstanding, index: &usize| {
        outstanding.get(*index).is_some_and(|record| record.path == path && record.state() == State::InFlight)
    };
    // No answer would tell of what SACKs have no room to name.
    let mut named = (0..outstanding.len()).rev().filter(|index| !outstanding.is_unnamed(*index));
    let Some(index) = named.find(|index| in_flight(outstanding, index)) else { return 0 };
    let tsn = outstanding.tsn(index);
    let sent = outstanding.rack.as_ref().and_then(|rack| rack.transmission(outstanding, index));
    let Some(record) = outstanding.get_mut(index) else { return 0 };
    record.set(FAST_MARKED | PROBE);
    let len = record.chunk_len();
    outstanding.change(index, State::Marked);
    if let Some(state) = outstanding.rack.as_mut().and_then(|rack| rack.path(path)) {
        sent.into_iter().for_each(|sent| state.note_probe(tsn, sent));
    }
    len
}
