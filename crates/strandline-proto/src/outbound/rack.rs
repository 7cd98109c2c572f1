//! Loss found by time (RFC 8985, its ideas on TSNs): a chunk is lost once one that was sent later to the same path has
//! been acknowledged and a reordering window has passed. Unlike the count of miss indications it finds retransmissions
//! that are lost, too, and the window adapts to paths that reorder. What turns out not to have been lost is told by
//! `spurious`.
//!
//! | | |
//! |---|---|
//! | [`Rack::on_acked`], [`Rack::on_resent_acked`] | which acknowledged chunk of each path was sent last |
//! | [`Rack::on_resent`], [`Rack::on_duplicate`] | what was sent again, and what that was needless |
//! | [`PathRack::on_lost`] | which losses belong together: [`congestion_event`](super::congestion_event) |
//! | [`Rack::deadline`] | when time alone makes a chunk lost; `loss_detection` finds what is lost |

use strandline_wire::DATA_CHUNK_HEADER_LEN;

use super::ack::PathAck;
use super::congestion_event::{Moment, Sent};
use super::frto::{Decision, Frto};
use super::resent::ResentLog;
use super::spurious::Spurious;
use crate::config::PATHS_MAX;
use crate::number::Tsn;
use crate::time::Time;

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
    pub(super) paths: Vec<PathRack>,
    /// What was known of them before.
    learnt: Learnt,
    /// No chunk below this index is in flight and was sent only once.
    pub(super) judged: usize,
    /// What no SACK had room to name and was sent only once has left flight below this index.
    pub(super) overdue: usize,
    /// What a packet has room for, in bytes of user data.
    pub(super) packet: u32,
    /// There is new data that the peer has room for: it may ask whether a time-out was needless.
    pub(super) can_ask: bool,
    /// When the latest was sent again of what this SACK acknowledges, unless that was too soon to be answered.
    again: Option<Time>,
    /// Something is known by which chunks may be judged otherwise than the last time.
    pub(super) stale: bool,
    /// When the first chunk that was only late then is lost.
    pub(super) first_late: Time,
    /// Chunks that were judged so far.
    #[cfg(test)]
    pub(super) judgements: usize,
}

/// What an acknowledgement says of the round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It answers the only transmission there was.
    Once,
    /// The chunk had been sent again.
    Again,
    /// The peer may have had it long before there was room to say so.
    Late,
}

/// What is known of the paths and holds longer than what is under way; kept while nothing is, and so small.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Learnt {
    /// A bit for each path on which a chunk sent once arrived after one sent later.
    reordering: u8,
    /// The widest reordering window of these, and how long it persists.
    quarters: u8,
    persist: u8,
    /// The smallest round-trip time of the first path in the latest busy period that measured any, in microseconds; 0: none.
    min_rtt_us: u32,
}

impl Learnt {
    fn path(self, path: usize) -> PathRack {
        let reordering = self.reordering >> path & 1 == 1;
        let known_ns = if path == 0 { u64::from(self.min_rtt_us) * 1000 } else { 0 };
        let Self { quarters, persist, .. } = if reordering { self } else { Self::default() };
        PathRack { reordering, quarters, persist, known_ns, ..PathRack::default() }
    }
}

/// What decides about the chunks of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Yardstick {
    pub(super) latest: (Time, Tsn),
    /// What was sent so long ago, and before `latest`, is lost.
    pub(super) patience_ns: u64,
}

/// See [`PathRack::note_probe`].
pub(super) type LatestProbes = [Option<(Tsn, Sent)>; 2];

/// The state of one path.
#[derive(Debug, Default)]
pub(super) struct PathRack {
    /// Of the chunks acknowledged, the one that was sent last. Those of one moment were sent in the order of TSNs.
    pub(super) latest: Option<(Time, Tsn)>,
    /// What the SACK being taken in acknowledges of it: the latest.
    fresh: Option<(Time, Tsn, Answer)>,
    /// Round-trip time of `latest`.
    pub(super) rtt_ns: u64,
    srtt_ns: u64,
    /// Minimum of the present period and of the one before; 0: none.
    min_rtt_ns: [u64; 2],
    min_since: Time,
    /// The smallest of the busy period before; 0: not known.
    known_ns: u64,
    /// Quarters of the minimum round-trip time that the reordering window spans.
    pub(super) quarters: u8,
    persist: u8,
    /// A chunk sent once arrived after one sent later.
    reordering: bool,
    /// The SACK being taken in told that a retransmission was.
    pub(super) needless: bool,
    /// Needless retransmissions widen the window once a round trip: not before this is acknowledged.
    widen_after: Option<Tsn>,
    /// When the latest congestion event began; none once all that was sent before is acknowledged.
    pub(super) began: Option<Moment>,
    /// Losses of it are being repaired until everything up to here is acknowledged.
    pub(super) exit: Option<Tsn>,
    /// It was a mark, and nothing of what was sent before is known to be lost.
    pub(super) only_marked: bool,
    /// It was a loss that SACKs told of, or one was found in it, and nothing that was sent after it has been acknowledged: its round trip is not over.
    pub(super) recovering: bool,
    /// T3-rtx expired and not everything up to here, which was sent before, is acknowledged.
    pub(super) timed_out: Option<Tsn>,
    /// Sent again by the latest tail-loss probes of different chunks and not known yet whether it was needed; and the transmission before
    /// that.
    pub(super) probes: LatestProbes,
    pub(super) spurious: Spurious,
    pub(super) frto: Frto,
    pub(super) deadline: Option<Time>,
    /// What chunks were judged by the last time.
    pub(super) judged_by: Option<Yardstick>,
    /// What is acknowledged behind a gap in what went to it: bytes of user data, and SACKs that told of some since there is one.
    pub(super) behind_gap: u32,
    pub(super) gap_sacks: u32,
    /// When an acknowledgement was taken back the last time, by a SACK that may have been overtaken by the one before it: its
    /// cumulative TSN was the same.
    pub(super) taken_back: Time,
}

/// Sent before, in order of transmission.
pub(super) fn is_before((at, tsn): (Time, Tsn), (later_at, later_tsn): (Time, Tsn)) -> bool {
    at < later_at || (at == later_at && tsn.is_before(later_tsn))
}

impl PathRack {
    fn min_rtt_ns(&self) -> u64 {
        let [now, before] = self.min_rtt_ns;
        if before == 0 {
            now
        } else if now == 0 {
            before
        } else {
            now.min(before)
        }
    }

    fn has_probed_with(&self, tsn: Tsn) -> bool {
        self.probes.iter().flatten().any(|(probe, _)| *probe == tsn)
    }

    fn offer(&mut self, at: Time, tsn: Tsn, answer: Answer) {
        if self.fresh.is_none_or(|(best, best_tsn, _)| is_before((best, best_tsn), (at, tsn))) {
            self.fresh = Some((at, tsn, answer));
        }
    }

    /// Takes over what a SACK acknowledged (RFC 8985 section 6.2 steps 1 and 2). True if the latest of all had been sent again: all
    /// that was sent before it is late, also where no gap is left that shows it.
    pub(super) fn settle(&mut self, now: Time) -> bool {
        let Some((at, tsn, answer)) = self.fresh.take() else { return false };
        let rtt_ns = (now.since(at).as_nanos() as u64).max(1);
        if answer == Answer::Once {
            self.on_rtt(now, rtt_ns);
        }
        let is_latest = self.latest.is_none_or(|latest| is_before(latest, (at, tsn)));
        if is_latest {
            self.latest = Some((at, tsn));
            if answer != Answer::Late || self.rtt_ns == 0 {
                self.rtt_ns = now.since(at).as_nanos() as u64;
            }
        }
        is_latest && answer == Answer::Again
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
    pub(super) fn reordering_window_ns(&self, many_acked: bool) -> u64 {
        if !self.reordering && (self.exit.is_some() || many_acked) {
            return 0;
        }
        (self.min_rtt_ns() / 4 * u64::from(self.quarters.max(1))).min(self.srtt_ns)
    }

    /// No answer to a chunk of `len` bytes comes sooner, of which a packet has room for `packet`: three quarters of the smallest round-trip
    /// time, and in proportion less for a shorter chunk, in case that passing its bits is what takes the time.
    /// The smallest of the busy period before counts, too: all that was measured since may have stood in a queue.
    fn answer_ns(&self, len: u32, packet: u32) -> u64 {
        let min_ns = self.min_rtt_ns();
        let least_ns = if self.known_ns == 0 { min_ns } else { min_ns.min(self.known_ns) };
        let whole_ns = u128::from(least_ns / 4 * 3);
        (whole_ns * u128::from(len.min(packet)) / u128::from(packet.max(1))) as u64
    }

    /// A retransmission was needless: perhaps the window is too narrow.
    pub(super) fn widen(&mut self, cumulative: Tsn, next: Tsn) {
        self.persist = PERSIST;
        if self.widen_after.is_none_or(|after| cumulative.is_at_or_after(after)) {
            self.widen_after = Some(next);
            self.quarters = self.quarters.max(1).saturating_add(1);
            self.reordering = true;
        }
    }

    /// Ends recovery when all that was outstanding at its start is acknowledged.
    pub(super) fn on_cumulative(&mut self, cumulative: Tsn, now: Moment, ack: &mut PathAck) {
        self.judge_probe(cumulative, now, ack);
        self.spurious.forget_probes(cumulative);
        if self.widen_after.is_some_and(|after| cumulative.is_after(after)) {
            self.widen_after = None;
        }
        if self.exit.is_some_and(|exit| cumulative.is_at_or_after(exit)) {
            self.exit = None;
            self.persist = self.persist.saturating_sub(1);
            if self.persist == 0 {
                self.quarters = 1;
            }
        }
        if self.timed_out.is_some_and(|exit| cumulative.is_at_or_after(exit)) {
            self.timed_out = None;
        }
        if self.began.is_some_and(|began| began.is_past(cumulative)) {
            self.began = None;
            self.recovering = false;
            self.only_marked = false;
        }
    }

    /// What follows the probe has been acknowledged and nobody told of a second copy of it: it repaired a loss (RFC 8985 section
    /// 7.4.2), which is certain.
    fn judge_probe(&mut self, cumulative: Tsn, now: Moment, ack: &mut PathAck) {
        for at in 0..self.probes.len() {
            let probe =
                self.probes.get_mut(at).and_then(|probe| probe.take_if(|(tsn, _)| cumulative.is_after(*tsn)));
            if probe.is_some_and(|(_, sent)| self.is_new(sent)) {
                ack.fast_retransmit_loss = true;
                self.began = Some(now);
                self.only_marked = false;
                self.spurious.close();
            }
        }
    }

    /// What was sent then belongs to no congestion event so far.
    fn is_new(&self, sent: Sent) -> bool {
        self.began.is_none_or(|began| began.is_before(sent))
    }

    /// A transmission of a chunk was found lost.
    pub(super) fn on_lost(&mut self, tsn: Tsn, sent: Sent, now: Moment, ack: &mut PathAck) {
        if self.is_new(sent) {
            self.recover(now);
            ack.fast_retransmit_loss = true;
            ack.undo_continues = self.timed_out.is_none() && self.spurious.go_on();
            if !ack.undo_continues {
                self.spurious.begin();
                self.frto.end();
            }
        } else if self.only_marked {
            self.recover(self.began.unwrap_or(now));
            ack.repairs = true;
        }
        match sent {
            Sent::Once(_) => self.spurious.on_marked(),
            Sent::Again(_) => self.spurious.on_marked_again(tsn),
        }
    }

    fn recover(&mut self, began: Moment) {
        self.began = Some(began);
        self.exit = Some(began.tsn.previous());
        self.recovering = true;
        self.only_marked = false;
    }

    /// It has arrived.
    fn on_arrived(&mut self, sent: Sent) {
        if self.recovering && self.is_new(sent) {
            self.recovering = false;
        }
    }

    /// Losses of what was sent so far belong to an event for which the window has shrunk: the network marked it.
    pub(super) fn on_shrunk(&mut self, now: Moment) {
        self.began = Some(now);
        self.only_marked = !self.recovering;
        self.spurious.close();
        self.frto.end();
    }

    /// T3-rtx expired. `spurious` and `frto` find out whether it was spurious.
    pub(super) fn on_timeout(&mut self, now: Moment) {
        let last_sent = now.tsn.previous();
        self.began = Some(now);
        self.exit = Some(last_sent);
        self.recovering = false;
        self.only_marked = false;
        self.timed_out = Some(last_sent);
        self.probes = LatestProbes::default();
    }

    /// A tail-loss probe sends the chunk again. Reports of duplicates may come after the next probe, so that both are known.
    pub(super) fn note_probe(&mut self, tsn: Tsn, sent: Sent) {
        let [latest, before] = self.probes;
        let others = latest.filter(|(probe, _)| *probe != tsn).or(before.filter(|(probe, _)| *probe != tsn));
        self.probes = [Some((tsn, sent)), others];
    }

    /// The peer had the chunk of a probe, or it is known otherwise what became of it.
    pub(super) fn forget_probe(&mut self, tsn: Tsn) {
        for probe in &mut self.probes {
            probe.take_if(|(probe, _)| *probe == tsn);
        }
    }

    /// A time-out puts into question whether anything was lost; `again`: together with the one before.
    pub(super) fn begin_undo(&mut self, again: bool) {
        if again { self.spurious.begin_again() } else { self.spurious.begin() }
    }

    /// What was believed lost was not.
    pub(super) fn on_undone(&mut self) {
        self.began = None;
        self.exit = None;
        self.recovering = false;
        self.only_marked = false;
        self.timed_out = None;
    }

    /// A SACK has been taken in: whether the latest time-out was needless.
    pub(super) fn judge_timeout(&mut self, cumulative: Tsn, can_ask: bool, ack: &mut PathAck) {
        match self.frto.decide(cumulative, can_ask) {
            Decision::Wait => {}
            Decision::Ask => ack.asks = can_ask,
            Decision::Right(Some((at, tsn))) => self.offer(at, tsn, Answer::Again),
            Decision::Right(None) => {}
            Decision::Needless => {
                self.spurious.close();
                self.on_undone();
                ack.undo = true;
            }
        }
    }

    pub(super) fn in_recovery(&self) -> bool {
        self.recovering
    }
}

impl Rack {
    pub(super) fn new(learnt: Learnt) -> Self {
        Self {
            now: Time::ZERO,
            log: ResentLog::default(),
            again: None,
            paths: Vec::new(),
            learnt,
            judged: 0,
            overdue: 0,
            packet: 0,
            can_ask: false,
            stale: true,
            first_late: Time::MAX,
            #[cfg(test)]
            judgements: 0,
        }
    }

    pub(super) fn path(&mut self, path: u8) -> Option<&mut PathRack> {
        let at = usize::from(path) % PATHS_MAX;
        if at >= self.paths.len() {
            let new = self.paths.len()..=at;
            self.paths.extend(new.map(|path| self.learnt.path(path)));
        }
        self.paths.get_mut(at)
    }

    /// What is to be kept while nothing is under way.
    pub(super) fn learnt(&self) -> Learnt {
        // Of paths that nothing went to since the last time as well.
        let known = self.paths.len() as u32;
        let old = u8::MAX.checked_shl(known).map_or(Learnt::default(), |others| Learnt {
            reordering: self.learnt.reordering & others,
            ..self.learnt
        });
        let old = if old.reordering == 0 { Learnt::default() } else { old };
        let measured_ns = self.paths.first().map_or(0, PathRack::min_rtt_ns);
        let measured_us = u32::try_from(measured_ns.div_ceil(1000)).unwrap_or(u32::MAX);
        let min_rtt_us = if measured_us == 0 { self.learnt.min_rtt_us } else { measured_us };
        let old = Learnt { min_rtt_us, ..old };
        let reordering = self.paths.iter().enumerate().filter(|(_, path)| path.reordering);
        reordering.fold(old, |learnt, (number, path)| Learnt {
            reordering: learnt.reordering | 1 << number,
            quarters: learnt.quarters.max(path.quarters),
            persist: learnt.persist.max(path.persist),
            ..learnt
        })
    }

    /// What comes next. `next`: the TSN of the next chunk.
    pub(super) fn moment(&self, next: Tsn) -> Moment {
        Moment { tsn: next, again: self.log.next() }
    }

    /// The longest of the paths' smoothed round-trip times.
    pub(super) fn round_trip_ns(&self) -> u64 {
        self.paths.iter().map(|path| path.srtt_ns).max().unwrap_or(0)
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

    /// What a packet has room for, header of a chunk included.
    pub(super) fn packet_len(&self) -> u32 {
        self.packet + DATA_CHUNK_HEADER_LEN as u32
    }

    /// Chunks that were sent once are acknowledged for the first time, from `first` to `tsn`, the last one sent then, and whether that
    /// tells a round-trip time. `overtaken`: a later one had been acknowledged before.
    pub(super) fn on_acked(
        &mut self,
        path: u8,
        sent: Option<(Time, bool)>,
        (first, tsn): (Tsn, Tsn),
        overtaken: bool,
    ) {
        let alone = self.paths.len() <= 1;
        let Some(path) = self.path(path) else { return };
        path.frto.on_acked(first, tsn);
        path.on_arrived(Sent::Once(tsn));
        // What went by another path may overtake without any reordering.
        path.reordering |=
            overtaken && (alone || path.latest.is_some_and(|(_, latest)| latest.is_after(tsn)));
        if let Some((at, timed)) = sent {
            path.offer(at, tsn, if timed { Answer::Once } else { Answer::Late });
        }
    }

    /// A chunk that was sent again, as the log's entry `number` has it, is acknowledged for the first time. Much sooner than
    /// any answer can come: that was for an earlier transmission (RFC 8985 section 6.2 step 2). What goes again goes alone, and
    /// may be a little faster than any packet of a train, which waited for the one before it. After a time-out it is
    /// believed more readily: too much hangs on it, and a single packet may be faster than any of a full queue was.
    pub(super) fn on_resent_acked(&mut self, path: u8, number: u16, (tsn, len): (Tsn, u32)) {
        let (Some(at), now) = (self.log.at(number), self.now) else { return };
        let sent = Sent::Again(self.log.whole(number));
        let (alone, packet) = (self.paths.len() <= 1, self.packet_len());
        let Some(path) = self.path(path) else { return };
        let rtt_ns = (now.since(at).as_nanos() as u64).max(1);
        if alone && path.timed_out.is_none() && rtt_ns < path.answer_ns(len, packet) {
            path.needless |= path.spurious.on_answered_too_soon(at, tsn);
        }
        let min_ns = path.min_rtt_ns();
        let least_ns = if path.timed_out.is_some() { min_ns / 2 } else { min_ns / 8 * 7 };
        let in_time = rtt_ns >= least_ns;
        if !path.frto.holds(at, tsn, in_time) && in_time {
            path.on_arrived(sent);
            path.offer(at, tsn, Answer::Again);
        }
        if in_time {
            self.again = self.again.max(Some(at));
        }
    }

    /// Karn's rule (RFC 9260 section 6.3.1 C5) where SACKs were lost: what was sent again brought this one, and what went before that, on
    /// whichever path, may have arrived long ago. To be called after each SACK.
    pub(super) fn judge_round_trips(&mut self, acks: &mut [PathAck; PATHS_MAX]) {
        let Some(again) = self.again.take() else { return };
        for ack in acks.iter_mut() {
            ack.rtt_overtaken = ack.rtt_sample_sent_at.is_some_and(|at| at < again);
        }
    }

    /// Chunks that were marked and not sent again are acknowledged.
    pub(super) fn on_marked_acked(&mut self, path: u8, chunks: u32) {
        if let Some(path) = self.path(path) {
            path.spurious.on_marks_refuted(chunks);
        }
    }

    /// A chunk is sent again that had been sent to path `from`. `first`: it had been sent once. `probe`: nothing told that it was lost. Gives
    /// its number in the log.
    pub(super) fn on_resent(&mut self, now: Time, tsn: Tsn, from: u8, (first, probe): (bool, bool)) -> u16 {
        let from = usize::from(from) % PATHS_MAX;
        // In no time at all what is sent now is before something that has arrived.
        self.stale |= self.paths.iter().any(|path| path.latest.is_some_and(|(at, _)| at >= now));
        for (number, path) in self.paths.iter_mut().enumerate() {
            match number == from {
                true if !probe => path.spurious.on_resent(now, tsn),
                _ => path.spurious.on_resent_elsewhere(now, tsn),
            }
            if number == from && probe {
                path.spurious.on_probe_resent(now, tsn, first);
            }
        }
        self.log.push(tsn, now)
    }

    /// The chunk was a tail-loss probe of which nobody knows yet whether it was needed.
    pub(super) fn has_probed_with(&self, tsn: Tsn) -> bool {
        self.paths.iter().any(|path| path.has_probed_with(tsn))
    }

    /// The path that asked by it.
    pub(super) fn probed_from(&self, tsn: Tsn) -> Option<u8> {
        let at = self.paths.iter().position(|path| path.has_probed_with(tsn))?;
        u8::try_from(at).ok()
    }

    /// The peer had the chunk already. Only of one that was sent again that is our doing.
    pub(super) fn on_duplicate(
        &mut self,
        tsn: Tsn,
        cumulative: Tsn,
        next: Tsn,
        acks: &mut [PathAck; PATHS_MAX],
    ) {
        for (path, ack) in self.paths.iter_mut().zip(acks) {
            if path.has_probed_with(tsn) {
                path.forget_probe(tsn);
                ack.probe_needless = true;
            }
            if path.spurious.on_refuted(tsn) {
                path.widen(cumulative, next);
            }
        }
    }

    /// The first `steps` chunks have left.
    pub(super) fn advance(&mut self, steps: usize) {
        self.judged = self.judged.saturating_sub(steps);
        self.overdue = self.overdue.saturating_sub(steps);
    }

    /// The chunk is in flight again without having been sent again. `overtaken`: perhaps that is what was true before. Returns how many
    /// chunks are to be looked at again.
    pub(super) fn on_reneged(&mut self, index: usize, path: u8, overtaken: bool) -> usize {
        let now = self.now;
        if let Some(path) = self.path(path).filter(|_| overtaken) {
            path.taken_back = now;
        }
        let again = self.judged.saturating_sub(index);
        self.judged -= again;
        again
    }

    /// When a chunk that is only late so far is lost.
    pub(super) fn deadline(&self) -> Time {
        self.paths.iter().filter_map(|path| path.deadline).min().unwrap_or(Time::MAX)
    }

    pub(super) fn in_recovery(&self) -> bool {
        self.paths.iter().any(PathRack::in_recovery)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let doubts: usize = self.paths.iter().map(|path| path.spurious.heap_bytes()).sum();
        size_of::<Self>() + self.log.heap_bytes() + self.paths.capacity() * size_of::<PathRack>() + doubts
    }
}
