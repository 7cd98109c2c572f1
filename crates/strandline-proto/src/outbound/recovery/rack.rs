//! Loss detection by time (RFC 8985 on TSNs): a chunk is lost once one that was sent later on the same path has been
//! acknowledged and a reordering window has passed. Unlike miss indications this also detects lost retransmissions, and
//! the window adapts to paths that reorder. `spurious` detects losses that were none.
//!
//! | method | concern |
//! |---|---|
//! | [`Rack::on_acked`], [`Rack::on_resent_acked`], [`PathRack::update`] | the acknowledged chunk of each path that was sent last |
//! | [`Rack::on_resent`], [`Rack::on_duplicate`] | retransmissions, and which were spurious |
//! | [`PathRack::on_lost`] | losses of one event: [`congestion_event`](super::congestion_event) |
//! | [`Rack::deadline`] | when time alone makes a chunk lost; [`loss_detection`](super::loss_detection) finds the lost chunks |

use strandline_wire::DATA_CHUNK_HEADER_LEN;

use super::ack::PathAck;
use super::congestion_event::{Moment, Transmission};
use super::frto::Frto;
use super::gaps::BeyondGap;
use super::probing_retransmission::ProbingRetransmission;
use super::spurious::Spurious;
use crate::number::Tsn;
use crate::outbound::sent::resent::ResentLog;
use crate::path_index::{PathIndex, PathVec, PerPath};
use crate::time::Time;
use crate::windowed_min::WindowedMin;

/// Number of recoveries after which a wider reordering window is reset, unless a spurious retransmission renews it.
const REO_WND_PERSIST: u8 = 16;

/// Period of a minimum round-trip time in nanoseconds; it holds for at most two of these.
const MIN_RTT_PERIOD_NS: u64 = 30_000_000_000;
/// The weight of a sample in the smoothed round-trip time is 1 / this (RFC 6298 section 2).
const SRTT_DIVISOR: u64 = 8;

/// Loss detection state of the association's send window.
#[derive(Debug)]
pub(crate) struct Rack {
    now: Time,
    pub(crate) log: ResentLog,
    /// State of each path that data was sent on.
    pub(crate) paths: PathVec<PathRack>,
    /// What was known about the paths before.
    pub(crate) learnt: Learnt,
    /// No chunk below this index is in flight and was sent only once: loss detection begins here.
    pub(crate) examined: usize,
    /// Below this index, chunks that no SACK had room to report and that were sent only once have left the flight.
    pub(crate) overdue: usize,
    /// Room of a packet in bytes of user data.
    pub(crate) packet: u32,
    /// When the latest retransmission that this SACK acknowledges was sent, unless the answer came too soon.
    latest_answered: Option<Time>,
    /// True if new information may show that chunks are lost.
    pub(crate) stale: bool,
    /// When the first of the chunks that were examined and not lost yet is lost.
    pub(crate) next_loss_at: Time,
    /// Number of chunks examined so far.
    #[cfg(test)]
    pub(crate) examinations: usize,
}

/// What an acknowledgement shows about the round-trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It answers the only transmission.
    First,
    /// The chunk had been retransmitted.
    Again,
    /// The peer may have had it long before there was room to report it.
    Late,
    /// The chunk had been retransmitted on another path, whose round-trip time it shows.
    Elsewhere,
}

/// What is known about the paths beyond the current flight; kept while idle, and therefore small.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Learnt {
    /// A bit for each path on which a chunk sent once arrived after one sent later.
    reordering: u8,
    /// The widest reordering window of these, and how long it persists.
    reo_wnd_mult: u8,
    reo_wnd_persist: u8,
    /// Minimum round-trip time of the first path in the latest busy period, in microseconds; 0 if there is none.
    min_rtt_us: u32,
}

impl Learnt {
    /// Forgets a path that is removed.
    pub(crate) fn forget(&mut self, path: PathIndex) {
        self.reordering &= !path.bit();
        if path == PathIndex::FIRST {
            self.min_rtt_us = 0;
        }
    }

    fn path(self, path: PathIndex) -> PathRack {
        let reordering = self.reordering & path.bit() != 0;
        let earlier_min_rtt_ns = if path == PathIndex::FIRST { u64::from(self.min_rtt_us) * 1000 } else { 0 };
        let Self { reo_wnd_mult, reo_wnd_persist, .. } = if reordering { self } else { Self::default() };
        PathRack { reordering, reo_wnd_mult, reo_wnd_persist, earlier_min_rtt_ns, ..PathRack::default() }
    }
}

/// What decides whether the chunks of a path are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LossThreshold {
    /// See [`PathRack::latest`].
    pub(crate) latest: (Time, Tsn),
    /// A chunk sent this long ago, and before `latest`, is lost: RACK.rtt and the reordering window.
    pub(crate) loss_delay_ns: u64,
}

/// See [`PathRack::note_probe`].
pub(crate) type LatestProbes = [Option<(Tsn, Transmission)>; 2];

/// The loss detection state of one path.
#[derive(Debug, Default)]
pub(crate) struct PathRack {
    /// The acknowledged chunk that was sent last (RACK.xmit_ts and RACK.end_seq). Those of one instant were sent in the
    /// order of TSNs.
    pub(crate) latest: Option<(Time, Tsn)>,
    /// The latest one that the current SACK acknowledges.
    latest_in_sack: Option<(Time, Tsn, Answer)>,
    /// Round-trip time of `latest` in nanoseconds (RACK.rtt).
    pub(crate) rtt_ns: u64,
    srtt_ns: u64,
    /// The minimum round-trip time (RACK.min_RTT), and when its current period began.
    min_rtt_ns: WindowedMin<u64>,
    min_since: Time,
    /// The minimum of the previous busy period; 0 if unknown.
    pub(crate) earlier_min_rtt_ns: u64,
    /// Length of the reordering window in quarters of the minimum round-trip time (RACK.reo_wnd_mult).
    pub(crate) reo_wnd_mult: u8,
    /// Number of recoveries until the window is reset (RACK.reo_wnd_persist).
    reo_wnd_persist: u8,
    /// True if a chunk sent once arrived after one sent later (RACK.reordering_seen).
    reordering: bool,
    /// True if the current SACK reported a spurious retransmission.
    pub(crate) spurious_seen: bool,
    /// Spurious retransmissions widen the window once per round trip: not before this is acknowledged
    /// (RACK.dsack_round).
    dsack_round: Option<Tsn>,
    // The next five fields are the state of recovery:
    //
    // | state | `began` | `exit` | `only_ecn` | `recovering` | `timed_out` |
    // |---|---|---|---|---|---|
    // | none | - | - | no | no | - |
    // | a loss, in the first round trip | set | set | no | yes | as before |
    // | a loss, after the first round trip | set | set | no | no | as before |
    // | the window shrunk for an ECN mark, in that round trip | set | set | no | yes | as before |
    // | the window shrunk for an ECN mark, otherwise | set | as before | yes | no | as before |
    // | a loss that a tail-loss probe repaired | set | as before | no | as before | as before |
    // | T3-rtx expired | set | set | no | no | set |
    //
    // A cumulative acknowledgement clears `exit` and `timed_out` at their TSNs, and the other three once
    // everything sent before `began` is acknowledged. If everything proves spurious, all are cleared.
    /// When the latest congestion event began; `None` once everything sent before is acknowledged.
    pub(crate) began: Option<Moment>,
    /// Losses of the event are repaired until everything up to here is acknowledged.
    pub(crate) exit: Option<Tsn>,
    /// True if the event was a mark, and nothing sent before it is known to be lost.
    pub(crate) only_ecn: bool,
    /// True if the event was a loss that SACKs revealed, or one was found in it, and nothing sent after it has been
    /// acknowledged: its round trip is not over.
    pub(crate) recovering: bool,
    /// Set if T3-rtx expired and not everything up to here, which was sent before, is acknowledged.
    pub(crate) timed_out: Option<Tsn>,
    /// The two latest retransmissions by tail-loss probes, with the transmissions before, until their effect is known.
    pub(crate) probes: LatestProbes,
    pub(crate) spurious: Spurious,
    pub(crate) frto: Frto,
    pub(crate) probing: ProbingRetransmission,
    pub(crate) deadline: Option<Time>,
    /// The threshold when chunks were last examined.
    pub(crate) threshold: Option<LossThreshold>,
    pub(crate) beyond_gap: BeyondGap,
}

/// True if the first was sent before the second (RACK_sent_after with the arguments exchanged).
pub(crate) fn was_sent_before((at, tsn): (Time, Tsn), (later_at, later_tsn): (Time, Tsn)) -> bool {
    at < later_at || (at == later_at && tsn.is_before(later_tsn))
}

impl PathRack {
    pub(crate) fn min_rtt_ns(&self) -> u64 {
        self.min_rtt_ns.get()
    }

    fn has_probed_with(&self, tsn: Tsn) -> bool {
        self.probes.iter().flatten().any(|(probe, _)| *probe == tsn)
    }

    pub(crate) fn consider(&mut self, at: Time, tsn: Tsn, answer: Answer) {
        if self.latest_in_sack.is_none_or(|(best, best_tsn, _)| was_sent_before((best, best_tsn), (at, tsn)))
        {
            self.latest_in_sack = Some((at, tsn, answer));
        }
    }

    /// RACK_update (RFC 8985 section 6.2 steps 1 and 2): takes in what a SACK acknowledged. Returns true if
    /// the latest of all had been retransmitted: everything sent before it is then overdue, even without a gap.
    pub(crate) fn update(&mut self, now: Time) -> bool {
        let Some((at, tsn, answer)) = self.latest_in_sack.take() else { return false };
        let rtt_ns = (now.since(at).as_nanos() as u64).max(1);
        if answer == Answer::First {
            self.on_rtt(now, rtt_ns);
        }
        let is_latest = self.latest.is_none_or(|latest| was_sent_before(latest, (at, tsn)));
        if is_latest {
            self.latest = Some((at, tsn));
            if matches!(answer, Answer::First | Answer::Again) || self.rtt_ns == 0 {
                self.rtt_ns = now.since(at).as_nanos() as u64;
            }
        }
        is_latest && matches!(answer, Answer::Again | Answer::Elsewhere)
    }

    fn on_rtt(&mut self, now: Time, rtt_ns: u64) {
        let (srtt_ns, divisor) = (self.srtt_ns, SRTT_DIVISOR);
        self.srtt_ns = if srtt_ns == 0 { rtt_ns } else { srtt_ns - srtt_ns / divisor + rtt_ns / divisor };
        if now.since(self.min_since).as_nanos() as u64 > MIN_RTT_PERIOD_NS {
            self.min_rtt_ns.begin_period();
            self.min_since = now;
        }
        self.min_rtt_ns.record(rtt_ns);
    }

    /// Returns the reordering window (RFC 8985 section 6.2 step 4).
    pub(crate) fn reordering_window_ns(&self, many_acked: bool) -> u64 {
        if !self.reordering && (self.exit.is_some() || many_acked) {
            return 0;
        }
        (self.min_rtt_ns() / 4 * u64::from(self.reo_wnd_mult.max(1))).min(self.srtt_ns)
    }

    /// Widens the reordering window after a spurious retransmission (RFC 8985 section 6.2 step 4).
    pub(crate) fn widen_window(&mut self, cumulative: Tsn, next: Tsn) {
        self.reo_wnd_persist = REO_WND_PERSIST;
        if self.dsack_round.is_none_or(|after| cumulative.is_at_or_after(after)) {
            self.dsack_round = Some(next);
            self.reo_wnd_mult = self.reo_wnd_mult.max(1).saturating_add(1);
            self.reordering = true;
        }
    }

    /// Ends recovery when everything that was outstanding at its start is acknowledged.
    pub(crate) fn on_cumulative(&mut self, cumulative: Tsn, now: Moment, ack: &mut PathAck) {
        self.detect_probe_repairs(cumulative, now, ack);
        self.spurious.forget_probes(cumulative);
        if self.dsack_round.is_some_and(|after| cumulative.is_after(after)) {
            self.dsack_round = None;
        }
        if self.exit.is_some_and(|exit| cumulative.is_at_or_after(exit)) {
            self.exit = None;
            self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
            if self.reo_wnd_persist == 0 {
                self.reo_wnd_mult = 1;
            }
        }
        if self.timed_out.is_some_and(|exit| cumulative.is_at_or_after(exit)) {
            self.timed_out = None;
        }
        if self.began.is_some_and(|began| began.is_past(cumulative)) {
            self.began = None;
            self.recovering = false;
            self.only_ecn = false;
        }
    }

    /// Detects tail-loss probes that repaired a loss (RFC 8985 section 7.4.2): their following data has been
    /// acknowledged without a report of a second copy. Such a loss is certain.
    fn detect_probe_repairs(&mut self, cumulative: Tsn, now: Moment, ack: &mut PathAck) {
        for at in 0..self.probes.len() {
            let probe =
                self.probes.get_mut(at).and_then(|probe| probe.take_if(|(tsn, _)| cumulative.is_after(*tsn)));
            if probe.is_some_and(|(_, sent)| self.is_new(sent)) {
                ack.begins_congestion_event = true;
                self.began = Some(now);
                self.only_ecn = false;
                self.spurious.close();
            }
        }
    }

    /// True if the transmission belongs to no congestion event so far.
    fn is_new(&self, sent: Transmission) -> bool {
        self.began.is_none_or(|began| began.is_before(sent))
    }

    /// Handles a transmission of a chunk that was declared lost.
    pub(crate) fn on_lost(&mut self, tsn: Tsn, sent: Transmission, now: Moment, ack: &mut PathAck) {
        if self.is_new(sent) {
            self.recover(now);
            ack.begins_congestion_event = true;
            ack.undo_continues = self.timed_out.is_none() && self.spurious.begin_or_continue();
            if !ack.undo_continues {
                self.spurious.begin();
                self.frto.end();
            }
        } else if self.only_ecn {
            self.recover(self.began.unwrap_or(now));
            ack.repairs = true;
        }
        match sent {
            Transmission::First(_) => self.spurious.on_marked(),
            Transmission::Again(_) => self.spurious.on_marked_again(tsn),
        }
    }

    fn recover(&mut self, began: Moment) {
        self.began = Some(began);
        self.exit = Some(began.tsn.previous());
        self.recovering = true;
        self.only_ecn = false;
    }

    /// Handles a transmission that has arrived.
    fn on_arrived(&mut self, sent: Transmission) {
        if self.recovering && self.is_new(sent) {
            self.recovering = false;
        }
    }

    /// Records that the window has shrunk for a mark: losses of data sent so far belong to that event.
    pub(crate) fn on_shrunk(&mut self, now: Moment) {
        self.began = Some(now);
        self.only_ecn = !self.recovering;
        self.spurious.close();
        self.frto.end();
    }

    /// Handles an expiry of T3-rtx. `spurious` and `frto` detect whether it was spurious.
    pub(crate) fn on_timeout(&mut self, now: Moment) {
        let last_sent = now.tsn.previous();
        self.began = Some(now);
        self.exit = Some(last_sent);
        self.recovering = false;
        self.only_ecn = false;
        self.timed_out = Some(last_sent);
        self.probes = LatestProbes::default();
        self.probing = ProbingRetransmission::default();
    }

    /// Records the retransmission of a tail-loss probe. Two are kept, since duplicates may be reported late.
    pub(crate) fn note_probe(&mut self, tsn: Tsn, sent: Transmission) {
        let [latest, before] = self.probes;
        let others = latest.filter(|(probe, _)| *probe != tsn).or(before.filter(|(probe, _)| *probe != tsn));
        self.probes = [Some((tsn, sent)), others];
    }

    /// Forgets the probe of a chunk that the peer already had, or whose fate is known otherwise.
    pub(crate) fn forget_probe(&mut self, tsn: Tsn) {
        for probe in &mut self.probes {
            probe.take_if(|(probe, _)| *probe == tsn);
        }
    }

    /// Begins an undo state at a time-out; with `again`, together with the previous one.
    pub(crate) fn begin_undo(&mut self, again: bool) {
        if again { self.spurious.continue_timeouts() } else { self.spurious.begin() }
    }

    /// Resets the state after a spurious loss.
    pub(crate) fn on_undone(&mut self) {
        self.began = None;
        self.exit = None;
        self.recovering = false;
        self.only_ecn = false;
        self.timed_out = None;
    }

    pub(crate) fn in_recovery(&self) -> bool {
        self.recovering
    }
}

impl Rack {
    pub(crate) fn new(learnt: Learnt) -> Self {
        Self {
            now: Time::ZERO,
            log: ResentLog::default(),
            latest_answered: None,
            paths: PathVec::new(),
            learnt,
            examined: 0,
            overdue: 0,
            packet: 0,
            stale: true,
            next_loss_at: Time::MAX,
            #[cfg(test)]
            examinations: 0,
        }
    }

    #[inline]
    pub(crate) fn path(&mut self, path: PathIndex) -> &mut PathRack {
        let learnt = self.learnt;
        self.paths.or_insert_with(path, |path| learnt.path(path))
    }

    /// Returns what must be kept while nothing is in flight.
    pub(crate) fn learnt(&self) -> Learnt {
        // Including paths that nothing was sent on since.
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
        let reordering =
            PathIndex::ALL.into_iter().zip(self.paths.iter()).filter(|(_, path)| path.reordering);
        reordering.fold(old, |learnt, (index, path)| Learnt {
            reordering: learnt.reordering | index.bit(),
            reo_wnd_mult: learnt.reo_wnd_mult.max(path.reo_wnd_mult),
            reo_wnd_persist: learnt.reo_wnd_persist.max(path.reo_wnd_persist),
            ..learnt
        })
    }

    /// Forgets a path that is removed.
    pub(crate) fn forget(&mut self, path: PathIndex) {
        self.learnt.forget(path);
        self.paths.reset(path);
        self.stale = true;
    }

    /// Returns the current point in the order of transmissions. `next` is the TSN of the next chunk.
    pub(crate) fn moment(&self, next: Tsn) -> Moment {
        Moment { tsn: next, again: self.log.next() }
    }

    /// Returns the longest smoothed round-trip time of the paths.
    pub(crate) fn round_trip_ns(&self) -> u64 {
        self.paths.iter().map(|path| path.srtt_ns).max().unwrap_or(0)
    }

    /// Begins the processing of a SACK.
    pub(crate) fn begin_sack(&mut self, now: Time) {
        self.now = now;
    }

    /// Sets the room of a packet for chunks, in bytes.
    #[inline]
    pub(crate) fn set_packet(&mut self, packet: usize) {
        self.packet = packet.saturating_sub(DATA_CHUNK_HEADER_LEN) as u32;
    }

    /// Returns the room of a packet, including the header of a chunk.
    pub(crate) fn packet_len(&self) -> u32 {
        self.packet + DATA_CHUNK_HEADER_LEN as u32
    }

    /// Records that chunks that were sent once are acknowledged for the first time, from `first` to `tsn`, with the
    /// time of the last one and whether that measures a round-trip time. `was_reordered` is true if a later one had
    /// been acknowledged before.
    pub(crate) fn on_acked(
        &mut self,
        path: PathIndex,
        sent: Option<(Time, bool)>,
        (first, tsn): (Tsn, Tsn),
        was_reordered: bool,
    ) {
        let alone = self.paths.len() <= 1;
        let path = self.path(path);
        path.frto.on_acked(first, tsn);
        path.on_arrived(Transmission::First(tsn));
        // A chunk on another path may overtake without any reordering.
        path.reordering |=
            was_reordered && (alone || path.latest.is_some_and(|(_, latest)| latest.is_after(tsn)));
        if let Some((at, timed)) = sent {
            path.consider(at, tsn, if timed { Answer::First } else { Answer::Late });
        }
    }

    /// Records that a chunk that was retransmitted as `entry` of the log is acknowledged for the first time.
    /// If that is much sooner than any answer can arrive, it is for an earlier transmission (RFC 8985 section 6.2
    /// step 2). A retransmission is sent alone, and may be a little faster than a packet of a train, which waited for
    /// the previous one. After a time-out the answer is believed more readily: too much depends on it, and a single
    /// packet may be faster than any of a full queue was.
    pub(crate) fn on_resent_acked(&mut self, index: PathIndex, entry: u16, (tsn, len): (Tsn, u32)) {
        let (Some(at), now) = (self.log.at(entry), self.now) else { return };
        let sent = Transmission::Again(self.log.whole(entry));
        let (alone, packet) = (self.paths.len() <= 1, self.packet_len());
        let path = self.path(index);
        let rtt_ns = (now.since(at).as_nanos() as u64).max(1);
        if alone && path.timed_out.is_none() && rtt_ns < path.spurious_below_ns(len, packet) {
            path.spurious_seen |= path.spurious.on_answered_too_soon(at, tsn);
        }
        let in_time = rtt_ns >= self.rack_ignores_below_ns(index);
        let path = self.path(index);
        if !path.frto.holds(at, tsn, in_time) && in_time {
            path.on_arrived(sent);
            path.consider(at, tsn, Answer::Again);
        }
        if in_time {
            self.latest_answered = self.latest_answered.max(Some(at));
        }
        for (other, path) in PathIndex::ALL.into_iter().zip(self.paths.iter_mut()) {
            path.probing.on_acked(tsn, Some(at).filter(|_| in_time && other != index));
        }
    }

    /// Applies Karn's rule (RFC 9260 section 6.3.1 C5) if SACKs were lost: this SACK answers a retransmission, and
    /// data sent before that, on any path, may have arrived long ago. Called after each SACK.
    pub(crate) fn apply_karn(&mut self, acks: &mut PerPath<PathAck>) {
        let Some(answered) = self.latest_answered.take() else { return };
        for ack in acks.iter_mut() {
            ack.rtt.after_lost_sack = ack.rtt.sent_at.is_some_and(|at| at < answered);
        }
    }

    /// Records that marked chunks that were not retransmitted are acknowledged.
    pub(crate) fn on_marked_acked(&mut self, path: PathIndex, chunks: u32) {
        self.path(path).spurious.on_marks_refuted(chunks);
    }

    /// Records that a chunk sent on path `from` (`None` if that is removed) is retransmitted. `first` is true if it
    /// had been sent once, `probe` if nothing indicated its loss. Returns its number in the log.
    pub(crate) fn on_resent(
        &mut self,
        now: Time,
        tsn: Tsn,
        from: Option<PathIndex>,
        (first, probe): (bool, bool),
    ) -> u16 {
        // Without a delay, what is sent now precedes something that has arrived.
        self.stale |= self.paths.iter().any(|path| path.latest.is_some_and(|(at, _)| at >= now));
        for (index, path) in PathIndex::ALL.into_iter().zip(self.paths.iter_mut()) {
            match Some(index) == from {
                true if !probe => path.spurious.on_resent(now, tsn),
                _ => path.spurious.on_resent_elsewhere(now, tsn),
            }
            if Some(index) == from && probe {
                path.spurious.on_probe_resent(now, tsn, first);
            }
        }
        self.log.push(tsn, now)
    }

    /// True if the chunk was a tail-loss probe and it is unknown whether it was needed.
    pub(crate) fn has_probed_with(&self, tsn: Tsn) -> bool {
        self.paths.iter().any(|path| path.has_probed_with(tsn))
    }

    /// Returns the path of that probe.
    pub(crate) fn probed_from(&self, tsn: Tsn) -> Option<PathIndex> {
        let mut paths = PathIndex::ALL.into_iter().zip(self.paths.iter());
        paths.find(|(_, path)| path.has_probed_with(tsn)).map(|(index, _)| index)
    }

    /// Records that the peer already had the chunk. This is our doing only if it was retransmitted.
    pub(crate) fn on_duplicate(&mut self, tsn: Tsn, cumulative: Tsn, next: Tsn, acks: &mut PerPath<PathAck>) {
        for (path, ack) in self.paths.iter_mut().zip(acks) {
            if path.has_probed_with(tsn) {
                path.forget_probe(tsn);
                ack.probe_spurious = true;
            }
            if path.spurious.on_refuted(tsn) {
                path.widen_window(cumulative, next);
            }
        }
    }

    /// Records that the first `steps` chunks have left.
    pub(crate) fn advance(&mut self, steps: usize) {
        self.examined = self.examined.saturating_sub(steps);
        self.overdue = self.overdue.saturating_sub(steps);
    }

    /// Records that the chunk is in flight again without a retransmission. Returns how many chunks must be examined
    /// again.
    pub(crate) fn on_reneged(&mut self, index: usize) -> usize {
        let again = self.examined.saturating_sub(index);
        self.examined -= again;
        again
    }

    /// Returns when a chunk that is not lost yet will be.
    pub(crate) fn deadline(&self) -> Time {
        self.paths.iter().filter_map(|path| path.deadline).min().unwrap_or(Time::MAX)
    }

    pub(crate) fn in_recovery(&self) -> bool {
        self.paths.iter().any(PathRack::in_recovery)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let spurious: usize = self.paths.iter().map(|path| path.spurious.heap_bytes()).sum();
        size_of::<Self>() + self.log.heap_bytes() + self.paths.heap_bytes() + spurious
    }
}
