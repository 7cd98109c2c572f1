//! Loss found by time (RFC 8985, its ideas on TSNs): a chunk is lost once one that was sent later to the same path has
//! been acknowledged and a reordering window has passed. Unlike the count of miss indications it finds retransmissions
//! that are lost, too, and the window adapts to paths that reorder. What turns out not to have been lost is told by
//! `doubt`.
//!
//! | | |
//! |---|---|
//! | [`Rack::on_acked`], [`Rack::on_resent_acked`] | which acknowledged chunk of each path was sent last |
//! | [`conclude`] | after each SACK, and when [`Rack::deadline`] passes: what is lost by that |
//! | [`on_timeout`], [`on_probe`] | T3-rtx (as F-RTO, RFC 5682, would have it) and tail-loss probes |

use strandline_wire::DATA_CHUNK_HEADER_LEN;

use super::ack::{self, PathAck};
use super::doubt::Doubt;
use super::gaps::Gaps;
use super::outstanding::{FAST_MARKED, Outstanding, PROBE, RESENT, State};
use super::resent::ResentLog;
use crate::config::PATHS_MAX;
use crate::number::Tsn;
use crate::time::Time;

/// Packets acknowledged beyond a gap from which on reordering is no longer taken for likely (DupThresh).
const PACKETS_ACKED: u32 = 3;

/// Recoveries after which a wider reordering window falls back, unless a needless retransmission renews it.
const PERSIST: u8 = 16;

/// How long a minimum of the round-trip time holds: two of these at most.
const MIN_RTT_PERIOD_NS: u64 = 30_000_000_000;

/// The state of the association's send window.
#[derive(Debug)]
pub(super) struct Rack {
    now: Time,
    pub(super) log: ResentLog,
    /// Each path that data was sent to.
    paths: Vec<PathRack>,
    /// No chunk below this index is in flight and was sent only once.
    judged: usize,
    /// What a packet has room for, in bytes of user data.
    packet: u32,
    /// SACKs that acknowledged something beyond a gap since there is one.
    gap_sacks: u32,
}

/// The state of one path.
#[derive(Debug, Default)]
struct PathRack {
    /// Of the chunks acknowledged, the one that was sent last. Those of one moment were sent in the order of TSNs.
    latest: Option<(Time, Tsn)>,
    /// What the SACK being taken in acknowledges of it: the latest, and whether that had been sent again.
    fresh: Option<(Time, Tsn, bool)>,
    /// Round-trip time of `latest`.
    rtt_ns: u64,
    srtt_ns: u64,
    /// Minimum of the present period and of the one before; 0: none.
    min_rtt_ns: [u64; 2],
    min_since: Time,
    /// Quarters of the minimum round-trip time that the reordering window spans.
    quarters: u8,
    persist: u8,
    /// A chunk sent once arrived after one sent later.
    reordering: bool,
    /// Needless retransmissions widen the window once a round trip: not before this is acknowledged.
    widen_after: Option<Tsn>,
    /// Recovery ends when everything up to here is acknowledged.
    exit: Option<Tsn>,
    /// The recovery follows a time-out.
    timed_out: bool,
    /// Sent again by a tail-loss probe and not known yet whether it was needed.
    probe: Option<Tsn>,
    doubt: Doubt,
    deadline: Option<Time>,
}

/// Sent before, in order of transmission.
fn is_before((at, tsn): (Time, Tsn), (later_at, later_tsn): (Time, Tsn)) -> bool {
    at < later_at || (at == later_at && tsn.is_before(later_tsn))
}

impl PathRack {
    fn min_rtt_ns(&self) -> u64 {
        let [now, before] = self.min_rtt_ns;
        if before == 0 { now } else if now == 0 { before } else { now.min(before) }
    }

    fn offer(&mut self, at: Time, tsn: Tsn, resent: bool) {
        if self.fresh.is_none_or(|(best, best_tsn, _)| is_before((best, best_tsn), (at, tsn))) {
            self.fresh = Some((at, tsn, resent));
        }
    }

    /// Takes over what a SACK acknowledged (RFC 8985 section 6.2 steps 1 and 2).
    fn settle(&mut self, now: Time) {
        let Some((at, tsn, resent)) = self.fresh.take() else { return };
        let rtt_ns = (now.since(at).as_nanos() as u64).max(1);
        if !resent {
            self.on_rtt(now, rtt_ns);
        }
        if self.latest.is_none_or(|latest| is_before(latest, (at, tsn))) {
            self.latest = Some((at, tsn));
            self.rtt_ns = now.since(at).as_nanos() as u64;
        }
    }

    fn on_rtt(&mut self, now: Time, rtt_ns: u64) {
        self.srtt_ns = if self.srtt_ns == 0 { rtt_ns } else { self.srtt_ns - self.srtt_ns / 8 + rtt_ns / 8 };
        if now.since(self.min_since).as_nanos() as u64 > MIN_RTT_PERIOD_NS {
            self.min_rtt_ns = [rtt_ns, self.min_rtt_ns[0]];
            self.min_since = now;
        }
        let [min, _] = &mut self.min_rtt_ns;
        *min = if *min == 0 { rtt_ns } else { rtt_ns.min(*min) };
    }

    /// RFC 8985 section 6.2 step 4.
    fn reordering_window_ns(&self, many_acked: bool) -> u64 {
        if !self.reordering && (self.exit.is_some() || many_acked) {
            return 0;
        }
        (self.min_rtt_ns() / 4 * u64::from(self.quarters.max(1))).min(self.srtt_ns)
    }

    /// A retransmission was needless: perhaps the window is too narrow.
    fn widen(&mut self, cumulative: Tsn, next: Tsn) {
        self.persist = PERSIST;
        if self.widen_after.is_none_or(|after| cumulative.is_at_or_after(after)) {
            self.widen_after = Some(next);
            self.quarters = self.quarters.max(1).saturating_add(1);
            self.reordering = true;
        }
    }

    /// Ends recovery when all that was outstanding at its start is acknowledged.
    fn on_cumulative(&mut self, cumulative: Tsn, ack: &mut PathAck) {
        if self.widen_after.is_some_and(|after| cumulative.is_after(after)) {
            self.widen_after = None;
        }
        if self.exit.is_some_and(|exit| cumulative.is_at_or_after(exit)) {
            self.exit = None;
            self.timed_out = false;
            self.persist = self.persist.saturating_sub(1);
            if self.persist == 0 {
                self.quarters = 1;
            }
        }
        // What follows the probe has been acknowledged and nobody told of a second copy of it: it repaired a loss
        // (RFC 8985 section 7.4.2).
        if self.probe.is_some_and(|probe| cumulative.is_after(probe)) {
            self.probe = None;
            ack.fast_retransmit_loss |= self.exit.is_none();
        }
    }

    /// A chunk was found lost.
    fn on_lost(&mut self, resent: bool, last_sent: Tsn, ack: &mut PathAck) {
        if self.exit.is_none() {
            self.exit = Some(last_sent);
            self.doubt.begin();
            ack.fast_retransmit_loss = true;
        }
        self.doubt.on_marked(resent);
    }

    fn in_recovery(&self) -> bool {
        self.exit.is_some() && !self.timed_out
    }
}

impl Rack {
    pub(super) fn new() -> Self {
        Self {
            now: Time::ZERO,
            log: ResentLog::default(),
            paths: Vec::new(),
            judged: 0,
            packet: 0,
            gap_sacks: 0,
        }
    }

    fn path(&mut self, path: u8) -> Option<&mut PathRack> {
        let at = usize::from(path) % PATHS_MAX;
        if at >= self.paths.len() {
            self.paths.resize_with(at + 1, PathRack::default);
        }
        self.paths.get_mut(at)
    }

    /// A SACK is about to be taken in.
    pub(super) fn begin(&mut self, now: Time) {
        self.now = now;
    }

    /// Packets have room for so many bytes of chunks.
    #[inline]
    pub(super) fn set_packet(&mut self, packet: usize) {
        self.packet = packet.saturating_sub(DATA_CHUNK_HEADER_LEN) as u32;
    }

    /// Chunks that were sent once are acknowledged for the first time, the last of them `tsn`. `overtaken`: a later one
    /// had been acknowledged before.
    pub(super) fn on_acked(&mut self, path: u8, at: Option<Time>, tsn: Tsn, overtaken: bool) {
        let Some(path) = self.path(path) else { return };
        path.reordering |= overtaken;
        if let Some(at) = at {
            path.offer(at, tsn, false);
        }
    }

    /// A chunk that was sent again, as the log's entry `number` has it, is acknowledged for the first time. Sooner than
    /// any answer can come: that was for an earlier transmission (RFC 8985 section 6.2 step 2). After a time-out it is
    /// believed more readily: too much hangs on it, and a single packet may be faster than any of a full queue was.
    pub(super) fn on_resent_acked(&mut self, path: u8, number: u16, tsn: Tsn) {
        let (Some(at), now) = (self.log.at(number), self.now) else { return };
        let Some(path) = self.path(path) else { return };
        let rtt_ns = (now.since(at).as_nanos() as u64).max(1);
        let least_ns = if path.timed_out { path.min_rtt_ns() / 2 } else { path.min_rtt_ns() };
        if rtt_ns >= least_ns {
            path.offer(at, tsn, true);
        }
    }

    /// Chunks that were marked and not sent again are acknowledged.
    pub(super) fn on_marked_acked(&mut self, path: u8, chunks: u32) {
        if let Some(path) = self.path(path) {
            path.doubt.on_marks_refuted(chunks);
        }
    }

    /// A chunk is sent again. Gives its number in the log.
    pub(super) fn on_resent(&mut self, now: Time, tsn: Tsn, from: u8, to: u8, probe: bool) -> u16 {
        if let Some(path) = self.path(from)
            && !probe
        {
            path.doubt.on_resent(tsn, from == to);
        }
        self.log.push(tsn, now)
    }

    /// The peer had the chunk already. Only of one that was sent again that is our doing.
    pub(super) fn on_duplicate(&mut self, tsn: Tsn, cumulative: Tsn, next: Tsn) {
        for path in &mut self.paths {
            let probe = path.probe == Some(tsn);
            if probe {
                path.probe = None;
            }
            if path.doubt.on_refuted(tsn) {
                path.widen(cumulative, next);
            }
        }
    }

    /// The first `steps` chunks have left.
    pub(super) fn advance(&mut self, steps: usize) {
        self.judged = self.judged.saturating_sub(steps);
    }

    /// The chunk is in flight again without having been sent again.
    pub(super) fn on_reneged(&mut self, index: usize) {
        self.judged = self.judged.min(index);
    }

    /// When a chunk that is only late so far is lost.
    pub(super) fn deadline(&self) -> Time {
        self.paths.iter().filter_map(|path| path.deadline).min().unwrap_or(Time::MAX)
    }

    pub(super) fn in_recovery(&self) -> bool {
        self.paths.iter().any(PathRack::in_recovery)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let doubts: usize = self.paths.iter().map(|path| path.doubt.heap_bytes()).sum();
        size_of::<Self>() + self.log.heap_bytes() + self.paths.capacity() * size_of::<PathRack>() + doubts
    }
}

/// A SACK has been taken in, or a deadline has passed: what is lost, whether recovery goes on, and whether what was done
/// was needless. `newly_beyond`: the SACK acknowledged something beyond a gap.
pub(super) fn conclude(
    outstanding: &mut Outstanding,
    gaps: &Gaps,
    now: Time,
    newly_beyond: bool,
    acks: &mut [PathAck; PATHS_MAX],
) {
    let Some(mut rack) = outstanding.rack.take() else { return };
    let cumulative = outstanding.cumulative_ack();
    for (path, ack) in rack.paths.iter_mut().zip(acks.iter_mut()) {
        path.settle(now);
        path.on_cumulative(cumulative, ack);
        path.deadline = None;
    }
    if gaps.is_empty() {
        rack.gap_sacks = 0;
    } else if newly_beyond {
        rack.gap_sacks = rack.gap_sacks.saturating_add(1);
    }
    if !(gaps.is_empty() && rack.log.is_empty()) {
        rack.find_lost(outstanding, gaps, now, acks);
    }
    for (path, ack) in rack.paths.iter_mut().zip(acks.iter_mut()) {
        if path.doubt.take_refuted() {
            path.exit = None;
            path.timed_out = false;
            ack.undo = true;
        }
        ack.in_recovery = path.in_recovery();
    }
    outstanding.rack = Some(rack);
}

/// What decides about the chunks of a path.
#[derive(Debug, Clone, Copy)]
struct Yardstick {
    latest: (Time, Tsn),
    /// What was sent so long ago, and before `latest`, is lost.
    patience_ns: u64,
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
    fn yardsticks(&self, outstanding: &Outstanding) -> (Yardsticks, Time) {
        let many_acked = self.gap_sacks >= PACKETS_ACKED
            || (self.packet > 0 && outstanding.gap_acked_bytes() >= PACKETS_ACKED * self.packet);
        let mut sticks = [None; PATHS_MAX];
        let mut newest = Time::ZERO;
        for (stick, path) in sticks.iter_mut().zip(&self.paths) {
            let Some(latest) = path.latest else { continue };
            let patience_ns = path.rtt_ns.max(1) + path.reordering_window_ns(many_acked);
            *stick = Some(Yardstick { latest, patience_ns });
            newest = newest.max(latest.0);
        }
        (sticks, newest)
    }

    fn judge(&mut self, path: u8, sent: (Time, Tsn), (sticks, newest): (&Yardsticks, Time), now: Time) -> Verdict {
        if sent.0 > newest {
            return Verdict::TooNew;
        }
        let stick = sticks.get(usize::from(path)).copied().flatten();
        let Some(stick) = stick.filter(|stick| is_before(sent, stick.latest)) else { return Verdict::Waits };
        let at = Time::from_nanos(sent.0.as_nanos().saturating_add(stick.patience_ns));
        if at <= now {
            return Verdict::Lost;
        }
        if let Some(path) = self.path(path) {
            path.deadline = path.deadline.max(Some(at));
        }
        Verdict::Waits
    }

    /// RFC 8985 section 6.2 step 5: first what was sent once, in the order of TSN and time, then what was sent again, in
    /// the order of time.
    fn find_lost(&mut self, outstanding: &mut Outstanding, gaps: &Gaps, now: Time, acks: &mut [PathAck; PATHS_MAX]) {
        let (sticks, newest) = self.yardsticks(outstanding);
        let mut judged = Some(self.judged);
        'holes: for hole in gaps.holes(outstanding.len()) {
            for index in hole.start.max(self.judged)..hole.end {
                let Some(record) = outstanding.get(index) else { break 'holes };
                if record.state() == State::InFlight && !record.has(RESENT) {
                    let tsn = outstanding.tsn(index);
                    let sent = outstanding.sent_at(index).map(|at| (at, tsn));
                    let path = record.path;
                    match sent.map_or(Verdict::Waits, |sent| self.judge(path, sent, (&sticks, newest), now)) {
                        Verdict::TooNew => break 'holes,
                        Verdict::Waits => self.judged = judged.take().unwrap_or(self.judged),
                        Verdict::Lost => self.mark(outstanding, index, acks),
                    }
                }
                judged = judged.map(|_| index + 1);
            }
        }
        self.judged = judged.unwrap_or(self.judged);
        self.find_lost_again(outstanding, now, (&sticks, newest), acks);
    }

    fn find_lost_again(
        &mut self,
        outstanding: &mut Outstanding,
        now: Time,
        sticks: (&Yardsticks, Time),
        acks: &mut [PathAck; PATHS_MAX],
    ) {
        self.log.prune(|tsn, number| outstanding.is_sent_as(tsn, number).is_some());
        for place in 0..self.log.len() {
            let Some((number, tsn, at)) = self.log.entry(place) else { break };
            let Some(index) = outstanding.is_sent_as(tsn, number) else { continue };
            let Some(path) = outstanding.get(index).map(|record| record.path) else { continue };
            match self.judge(path, (at, tsn), sticks, now) {
                Verdict::TooNew => break,
                Verdict::Waits => {}
                Verdict::Lost => self.mark(outstanding, index, acks),
            }
        }
    }

    fn mark(&mut self, outstanding: &mut Outstanding, index: usize, acks: &mut [PathAck; PATHS_MAX]) {
        let last_sent = outstanding.next_tsn().previous();
        let Some(record) = outstanding.get_mut(index) else { return };
        record.set(FAST_MARKED);
        let (len, path, resent) = (record.chunk_len(), record.path, record.has(RESENT));
        outstanding.change(index, State::Marked);
        let ack = ack::of(acks, path);
        ack.lost_bytes += len;
        if let Some(path) = self.path(path) {
            path.on_lost(resent, last_sent, ack);
        }
    }
}

/// T3-rtx of a path expired and there is no other one to go to: as many of its lowest chunks as fit a packet are marked.
/// What becomes of the others, the answer to these tells: if it takes as long as an answer does, they were sent before
/// what has arrived, and are lost; if it comes sooner, nothing was lost but time (RFC 5682). Returns the bytes marked,
/// header and padding included. `None`: that was tried and did not help, so that all have to be marked.
pub(super) fn on_timeout(outstanding: &mut Outstanding, path: u8) -> Option<u32> {
    let tried = |rack: &mut Rack| rack.path(path).is_some_and(|state| state.timed_out);
    let mut rack = outstanding.rack.take_if(|rack| !tried(rack))?;
    let last_sent = outstanding.next_tsn().previous();
    let packet = rack.packet + DATA_CHUNK_HEADER_LEN as u32;
    let mut room = packet;
    let mut bytes = 0;
    if let Some(state) = rack.path(path) {
        state.exit = Some(last_sent);
        state.timed_out = true;
        state.probe = None;
        state.doubt.begin();
        for index in 0..outstanding.len() {
            let Some(record) = outstanding.get_mut(index) else { break };
            if record.path != path || record.state() == State::GapAcked {
                continue;
            }
            let len = record.chunk_len();
            if len > room && room < packet {
                break;
            }
            room = room.saturating_sub(len);
            state.doubt.on_marked(record.has(RESENT) || record.state() == State::Marked);
            record.clear(FAST_MARKED);
            if record.state() == State::InFlight {
                bytes += len;
                outstanding.change(index, State::Marked);
            }
        }
    }
    outstanding.rack = Some(rack);
    Some(bytes)
}

/// Everything in flight on the path was marked, so that what was known of it is void.
pub(super) fn on_path_marked(outstanding: &mut Outstanding, path: u8) {
    let last_sent = outstanding.next_tsn().previous();
    let Some(state) = outstanding.rack.as_mut().and_then(|rack| rack.path(path)) else { return };
    state.exit = Some(last_sent);
    state.timed_out = true;
    state.probe = None;
    state.doubt = Doubt::default();
    state.deadline = None;
}

/// A tail-loss probe is to go and there is no new data for it: the highest chunk in flight on the path goes again
/// (RFC 8985 section 7.3). Returns its bytes, which have left the flight.
pub(super) fn on_probe(outstanding: &mut Outstanding, path: u8) -> u32 {
    let in_flight = |outstanding: &Outstanding, index: &usize| {
        outstanding.get(*index).is_some_and(|record| record.path == path && record.state() == State::InFlight)
    };
    let Some(index) = (0..outstanding.len()).rev().find(|index| in_flight(outstanding, index)) else { return 0 };
    let tsn = outstanding.tsn(index);
    let Some(record) = outstanding.get_mut(index) else { return 0 };
    record.set(FAST_MARKED | PROBE);
    let len = record.chunk_len();
    outstanding.change(index, State::Marked);
    if let Some(state) = outstanding.rack.as_mut().and_then(|rack| rack.path(path)) {
        state.probe = Some(tsn);
    }
    len
}
