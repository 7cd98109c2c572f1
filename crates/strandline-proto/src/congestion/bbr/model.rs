//! BBR's model of a path: bandwidth, minimum round-trip time, and the flight that proved too large.

use core::time::Duration;
use std::collections::VecDeque;

use super::super::controller::Ack;
use super::sent::SentLog;
use crate::time::Time;

/// Number of recorded acknowledgements: `MOMENTS_EACH` in a round trip, and `MOMENTS_MAX` in all.
const MOMENTS_EACH: u32 = 32;
const MOMENTS_MAX: usize = 96;

/// Beta: percent of the bandwidth-delay product that a loss leaves as the minimum flight limit.
pub(super) const BETA: u64 = 70;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Stands for an unknown number of bytes: practically unlimited, and small enough to be multiplied by a gain.
const UNLIMITED: u64 = u64::MAX / 1_000;

/// Minimum interval for measuring a rate. On shorter paths timers and batches bunch the acknowledgements.
pub(super) const MEASURED_MIN: Duration = Duration::from_millis(4);

/// Lifetime of the minimum round-trip time (ProbeRTTInterval, section 5.5).
const MIN_RTT_HOLDS: Duration = Duration::from_secs(5);

/// Tolerated loss in a round, in percent of what was sent: with a queue (BBRLossThresh), and without one.
const LOSS_MAX: u64 = 2;
const LOSS_MAX_WITHOUT_QUEUE: u64 = 20;

/// Number of packets sent after which the loss counters are halved.
const LOSS_MEMORY_PACKETS: u64 = 200;

/// Percent of the flight that remains after an ECN mark. RFC 8511 has 80 for a controller that halves for a loss, and
/// 85 for one that keeps 70 percent.
const MARKED_LEAVES: u64 = 85;

/// Minimum number of lost packets in a round that counts as lossy.
const LOST_PACKETS_MIN: u64 = 6;

/// Minimum number of loss events in a round of Startup. Fewer are a burst and no sign of a full queue
/// (BBRStartupFullLossCnt).
const LOSSES_MIN: u32 = 6;

/// A round-trip time within a thirty-second plus `NEAR_MIN` of the minimum shows an empty queue. The minimum then
/// need not be probed for, but for no longer than `NEAR_MIN_HOLDS`.
const NEAR_MIN_DIVISOR: u32 = 32;
const NEAR_MIN: Duration = Duration::from_micros(100);
const NEAR_MIN_HOLDS: Duration = Duration::from_secs(15);

/// A round-trip time shows a queue if it exceeds the minimum by this fraction, and by at least `QUEUE_MIN`.
const QUEUE_DIVISOR: u32 = 4;
const QUEUE_MIN: Duration = Duration::from_micros(500);

/// Thousandths of the losses without a queue that are made up for by a higher rate.
const COMPENSATED_PERMILLE: u64 = 875;

/// The flight limit grows by this fraction when the flight reaches `REACHED_EIGHTHS` of it without harm.
const RAISE_DIVISOR: u64 = 32;
const REACHED_EIGHTHS: u64 = 7;

/// The state of delivery when an acknowledgement arrived.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Time,
    /// When the latest packet acknowledged so far was sent.
    sent_at: Time,
    delivered: u64,
    /// True if the application sent less than it could have.
    app_limited: bool,
}

/// Whether the application paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    No,
    /// The flight is empty. If nothing is sent for a while, that is a pause.
    Empty,
    /// Data was sent after a pause, and nothing of it was acknowledged yet.
    Over,
}

/// The result of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// True if it is the first acknowledgement of data sent in a new round trip.
    pub(super) round_began: bool,
    pub(super) app_limited: bool,
    /// True if too much was lost in the round that ended.
    pub(super) lossy: bool,
    /// True if the round is lossy and the losses came in too many events to be a burst.
    pub(super) often: bool,
    /// Bytes delivered in the round that ended.
    pub(super) round_bytes: u64,
}

/// True if nothing was acknowledged since the flight was empty.
pub(super) fn resumes(model: &Model) -> bool {
    model.pause != Pause::No
}

#[derive(Debug, Clone)]
pub(super) struct Model {
    moments: VecDeque<Moment>,
    sent: SentLog,
    delivered: u64,
    /// Maximum bandwidth in the current and in the previous cycle, in bytes per second.
    bandwidth: [u64; 2],
    min_rtt: Duration,
    min_rtt_at: Time,
    pause: Pause,
    /// The minimum round-trip time since the last probe for it, and that between this probe and the one before.
    searched_rtt: Duration,
    found_rtt: Duration,
    /// The minimum round-trip time of the current round.
    round_rtt: Duration,
    /// When a round-trip time was last close to the minimum.
    near_min_at: Time,
    rounds: u32,
    /// The round ends when data sent after this amount was delivered is acknowledged.
    round_end: u64,
    /// Bytes delivered before the round began, and bytes lost in it.
    round_delivered: u64,
    round_lost: u64,
    /// Number of loss events in this round.
    round_losses: u32,
    /// Bytes recently sent and lost in rounds without a queue.
    sent_lately: u64,
    lost_lately: u64,
    /// True if the previous round had a queue.
    queued: bool,
    /// True after Startup.
    steady: bool,
    /// True if competing flows keep a queue, which causes losses as well.
    contested: bool,
    /// Maximum flight of this round and of the previous one, in which the data acknowledged now was sent.
    round_flight: [u32; 2],
    /// Bytes in flight that proved too many; `u64::MAX` if unknown.
    in_flight_high: u64,
    /// True if `in_flight_high` was lowered in this round.
    lowered: bool,
    /// Bound of the bytes in flight after ECN marks; `u64::MAX` if there are none.
    in_flight_low: u64,
    /// True if a mark arrived in this round.
    ecn_echoed: bool,
    /// Bytes left to acknowledge of the flight at which the sender ran out of data. Rates measured until then are
    /// those of the sender, not of the path.
    starved: u32,
}

impl Model {
    pub(super) fn new(now: Time) -> Self {
        Self {
            moments: VecDeque::new(),
            sent: SentLog::default(),
            delivered: 0,
            bandwidth: [0; 2],
            min_rtt: Duration::MAX,
            min_rtt_at: now,
            pause: Pause::No,
            searched_rtt: Duration::MAX,
            found_rtt: Duration::MAX,
            round_rtt: Duration::MAX,
            near_min_at: now,
            rounds: 0,
            round_end: 0,
            round_delivered: 0,
            round_lost: 0,
            round_losses: 0,
            sent_lately: 0,
            lost_lately: 0,
            queued: false,
            steady: false,
            contested: false,
            round_flight: [0; 2],
            in_flight_high: u64::MAX,
            lowered: false,
            in_flight_low: u64::MAX,
            ecn_echoed: false,
            starved: 0,
        }
    }

    /// Updates the model with an acknowledgement. `pmdcs` is the size of a packet in bytes.
    pub(super) fn on_ack(&mut self, ack: &Ack, pmdcs: u32) -> Sample {
        self.delivered += u64::from(ack.acked_bytes);
        let app_limited = !ack.window_full || self.starved > 0;
        self.starved = self.starved.saturating_sub(ack.acked_bytes);
        let [flight, _] = &mut self.round_flight;
        *flight = ack.flight_before.max(*flight);
        let mut sample =
            Sample { round_began: false, app_limited, lossy: false, often: false, round_bytes: 0 };
        if let Some(rtt) = ack.latest_rtt.filter(|rtt| !rtt.is_zero()) {
            self.round_rtt = self.round_rtt.min(rtt);
            self.searched_rtt = self.searched_rtt.min(rtt);
            if rtt <= self.min_rtt {
                self.min_rtt = rtt;
                self.min_rtt_at = ack.now;
            }
            if rtt <= self.min_rtt + self.min_rtt / NEAR_MIN_DIVISOR + NEAR_MIN {
                self.near_min_at = ack.now;
            }
            let sent_at = Time::from_nanos(ack.now.as_nanos().saturating_sub(rtt.as_nanos() as u64));
            if self.moments.is_empty() {
                // The flight was empty: measure the rate from the time at which the latest of this data was sent.
                let delivered = self.delivered - u64::from(ack.acked_bytes.min(pmdcs));
                self.moments.push_back(Moment { at: sent_at, sent_at, delivered, app_limited });
            }
            let long_ago = ack.now.as_nanos().saturating_sub(MEASURED_MIN.as_nanos() as u64);
            let long_ago = self.moment_before(sent_at.min(Time::from_nanos(long_ago)));
            if let Some(then) = long_ago.or_else(|| self.moment_before(sent_at)) {
                self.measure(ack.now, sent_at, then, &mut sample);
            }
            self.end_round(pmdcs, &mut sample);
        }
        self.remember(ack.now, ack.latest_rtt, app_limited);
        sample
    }

    fn moment_before(&self, at: Time) -> Option<Moment> {
        self.moments.iter().rev().find(|moment| moment.at <= at).copied()
    }

    /// Measures the delivery rate from the last acknowledgement before the packet was sent, or an earlier one, to the
    /// packet's own. The rate is at most the sending rate, since acknowledgements may be delayed and arrive together.
    /// The amount is at most what was sent in that time: a SACK can report only some hundred gap blocks, and data
    /// beyond the last of them is acknowledged much later, all at once.
    fn measure(&mut self, now: Time, sent_at: Time, then: Moment, sample: &mut Sample) {
        let elapsed = now.since(then.at).max(sent_at.since(then.sent_at));
        let elapsed = elapsed.max(self.min_rtt).max(MEASURED_MIN).as_nanos();
        let bytes = (self.delivered - then.delivered).min(self.sent.between(then.sent_at, sent_at));
        let rate = u64::try_from(u128::from(bytes) * NANOS_PER_SECOND / elapsed).unwrap_or(u64::MAX);
        let rate = if self.steady { rate.min(self.longer_rate(now, then)) } else { rate };
        sample.app_limited = then.app_limited;
        if !then.app_limited || rate > self.bandwidth() {
            let [now, _] = &mut self.bandwidth;
            *now = rate.max(*now);
        }
        sample.round_began = then.delivered >= self.round_end;
    }

    /// Returns the rate over an interval that is longer by half, in bytes per second. An interval that begins within
    /// a burst of acknowledgements excludes the pause before it and looks too fast. Not used in Startup, where the
    /// rate grows so fast that a longer interval looks too slow.
    fn longer_rate(&self, now: Time, then: Moment) -> u64 {
        let more = now.since(then.at).max(MEASURED_MIN) / 2;
        let before = Time::from_nanos(then.at.as_nanos().saturating_sub(more.as_nanos() as u64));
        let Some(before) = self.moment_before(before) else { return u64::MAX };
        let elapsed = now.since(before.at).as_nanos().max(1);
        let bytes = u128::from(self.delivered - before.delivered);
        u64::try_from(bytes * NANOS_PER_SECOND / elapsed).unwrap_or(u64::MAX)
    }

    fn end_round(&mut self, pmdcs: u32, sample: &mut Sample) {
        if !sample.round_began {
            return;
        }
        sample.round_bytes = self.delivered - self.round_delivered;
        let sent = sample.round_bytes + self.round_lost;
        let queue = self.shows_queue();
        let most = if queue && !self.contested { self.loss_max() } else { LOSS_MAX_WITHOUT_QUEUE };
        let enough = self.round_lost >= LOST_PACKETS_MIN * u64::from(pmdcs);
        sample.lossy = enough && self.round_lost * 100 > sent * most;
        sample.often = sample.lossy && self.round_losses >= LOSSES_MIN;
        self.round_losses = 0;
        self.note_losses(queue, sent, pmdcs);
        self.rounds = self.rounds.wrapping_add(1);
        self.round_end = self.delivered;
        self.round_delivered = self.delivered;
        self.round_lost = 0;
        self.round_flight = [0, self.round_flight[0]];
        self.round_rtt = Duration::MAX;
        self.lowered = false;
        if !core::mem::take(&mut self.ecn_echoed) {
            self.in_flight_low = self.in_flight_low.saturating_add(u64::from(pmdcs));
        }
    }

    /// Returns the tolerated loss with a queue, in percent. The loss rate without a queue is added twice, since
    /// random loss varies.
    fn loss_max(&self) -> u64 {
        let all = self.sent_lately.max(1);
        (LOSS_MAX + self.lost_lately * 200 / all).min(LOSS_MAX_WITHOUT_QUEUE)
    }

    /// Updates the estimate of the loss rate without a queue.
    fn note_losses(&mut self, queue: bool, sent: u64, pmdcs: u32) {
        self.queued = queue;
        if !queue {
            self.sent_lately += sent;
            self.lost_lately += self.round_lost;
        }
        if self.sent_lately > LOSS_MEMORY_PACKETS * u64::from(pmdcs) {
            self.sent_lately /= 2;
            self.lost_lately /= 2;
        }
    }

    /// Returns how much more than the bandwidth to send, in thousandths, so that the bandwidth arrives despite
    /// losses. An eighth of the losses is not made up for: otherwise a policer that drops the excess would raise the
    /// rate further. Returns 0 while there is a queue.
    pub(super) fn lost_permille(&self) -> u64 {
        let arrived = self.sent_lately.saturating_sub(self.lost_lately);
        if self.queued || arrived == 0 {
            return 0;
        }
        (self.lost_lately * COMPENSATED_PERMILLE / arrived).min(LOSS_MAX_WITHOUT_QUEUE * 10)
    }

    fn remember(&mut self, now: Time, rtt: Option<Duration>, app_limited: bool) {
        // With a queue a round trip exceeds the minimum, and the records must still cover it.
        let long = rtt.unwrap_or(self.min_rtt);
        let apart =
            if long == Duration::MAX { Duration::ZERO } else { long.max(MEASURED_MIN) / MOMENTS_EACH };
        // The sending time of data that was sent more than once is unknown.
        let known = rtt.map(|rtt| Time::from_nanos(now.as_nanos().saturating_sub(rtt.as_nanos() as u64)));
        let sent_before = self.moments.back().map(|last| last.sent_at);
        let sent_at = known.max(sent_before).unwrap_or(now);
        let moment = Moment { at: now, sent_at, delivered: self.delivered, app_limited };
        // Acknowledgements that arrive together make one record, that of the last one. Earlier ones lack some of the
        // delivered data.
        let before = self.moments.len().checked_sub(2).and_then(|before| self.moments.get(before)).copied();
        if let (Some(last), Some(before)) = (self.moments.back_mut(), before)
            && now.since(before.at) < apart
        {
            *last = Moment { app_limited: app_limited | last.app_limited, ..moment };
            return;
        }
        if self.moments.len() >= MOMENTS_MAX {
            self.moments.pop_front();
        }
        self.moments.push_back(moment);
    }

    /// True if all packets of this round met a queue.
    fn shows_queue(&self) -> bool {
        self.round_rtt != Duration::MAX
            && self.round_rtt > self.min_rtt + (self.min_rtt / QUEUE_DIVISOR).max(QUEUE_MIN)
    }

    /// True if all packets of the previous round met a queue.
    pub(super) fn queued(&self) -> bool {
        self.queued
    }

    pub(super) fn set_steady(&mut self) {
        self.steady = true;
    }

    pub(super) fn set_contested(&mut self, contested: bool) {
        self.contested = contested;
    }

    /// True if the queue overflows in this round.
    pub(super) fn overflows(&self) -> bool {
        self.round_lost > 0 && self.shows_queue()
    }

    pub(super) fn on_starved(&mut self, flight: u32) {
        self.starved = flight.max(1);
    }

    pub(super) fn on_sent(&mut self, now: Time, bytes: u32) {
        if self.pause == Pause::Empty {
            let long = self.moments.back().is_none_or(|last| now.since(last.at) > MEASURED_MIN);
            self.pause = if long { Pause::Over } else { Pause::No };
            if long {
                self.moments.clear(); // A rate measured across the pause would be wrong.
            }
        }
        self.sent.on_sent(now, bytes, self.min_rtt);
    }

    pub(super) fn on_lost(&mut self, bytes: u32) {
        self.round_lost += u64::from(bytes);
        self.round_losses = self.round_losses.saturating_add(1);
    }

    /// Records that the flight is empty when data is to be sent. One acknowledgement may cover the whole
    /// flight of a short path, so that this alone is no pause.
    pub(super) fn on_idle(&mut self) {
        self.pause = Pause::Empty;
    }

    /// Frees the memory of the records after a longer idle period.
    pub(super) fn release_idle(&mut self) {
        self.sent.release();
        self.moments = VecDeque::new();
        self.pause = Pause::Empty;
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.moments.capacity() * size_of::<Moment>() + self.sent.heap_bytes()
    }

    /// Returns true once for the first acknowledgement after an idle period.
    pub(super) fn take_restarted(&mut self) -> bool {
        let over = self.pause == Pause::Over;
        if over {
            self.pause = Pause::No;
        }
        over
    }

    /// Limits the flight to that at which the lost data was sent; at most once per round trip.
    pub(super) fn on_congestion(&mut self) {
        if !core::mem::replace(&mut self.lowered, true) {
            let [now, before] = self.round_flight;
            let least = self.in_flight(100) / 10 * (BETA / 10);
            self.in_flight_high = u64::from(now.max(before)).max(least).min(self.in_flight_high);
        }
    }

    /// Lowers the flight because of an ECN mark on data sent in this round or the previous one.
    pub(super) fn on_marked(&mut self) {
        self.ecn_echoed = true;
        let [now, before] = self.round_flight;
        let flight = u64::from(now.max(before)).min(self.in_flight_low);
        self.in_flight_low = flight / 100 * MARKED_LEAVES;
    }

    /// Removes the bound that ECN marks set, so that a probe can test a larger flight.
    pub(super) fn forget_marks(&mut self) {
        self.in_flight_low = u64::MAX;
    }

    pub(super) fn in_flight_low(&self) -> u64 {
        self.in_flight_low
    }

    /// Sets the bound of the flight when Startup ends with losses: what arrived in its last round fits the path and
    /// its queue.
    pub(super) fn on_start_overflowed(&mut self, sample: &Sample) {
        self.in_flight_high = self.in_flight(100).max(sample.round_bytes);
    }

    /// Raises the bound of the flight after `flight` bytes caused no congestion.
    pub(super) fn raise_in_flight_high(&mut self, flight: u32) {
        if self.in_flight_high != u64::MAX && u64::from(flight) >= self.in_flight_high / 8 * REACHED_EIGHTHS {
            self.in_flight_high = self.in_flight_high.saturating_add(self.in_flight_high / RAISE_DIVISOR);
        }
    }

    /// Begins a probing cycle. The bandwidth of the cycle before the last is forgotten.
    pub(super) fn begin_cycle(&mut self) {
        let [now, before] = &mut self.bandwidth;
        if *now > 0 {
            *before = core::mem::take(now);
        }
    }

    pub(super) fn min_rtt_is_old(&self, now: Time) -> bool {
        let near = now.since(self.near_min_at) <= MIN_RTT_HOLDS;
        now.since(self.min_rtt_at) > if near { NEAR_MIN_HOLDS } else { MIN_RTT_HOLDS }
    }

    /// Ends a probe for the minimum round-trip time. The new minimum is that since the probe before the last one,
    /// because other flows that probe at other times keep their queue.
    pub(super) fn renew_min_rtt(&mut self, now: Time) {
        if self.searched_rtt != Duration::MAX {
            self.min_rtt = self.searched_rtt.min(self.found_rtt);
            self.found_rtt = core::mem::replace(&mut self.searched_rtt, Duration::MAX);
        }
        self.min_rtt_at = now;
    }

    /// Returns `gain` percent of the bandwidth-delay product in bytes.
    pub(super) fn in_flight(&self, gain: u64) -> u64 {
        if self.min_rtt == Duration::MAX {
            return UNLIMITED;
        }
        let product = u128::from(self.bandwidth()) * self.min_rtt.as_nanos() / NANOS_PER_SECOND;
        u64::try_from(product * u128::from(gain) / 100).unwrap_or(UNLIMITED)
    }

    /// Returns the bytes sent within the variation of round-trip times without a queue.
    pub(super) fn near_min_bytes(&self) -> u64 {
        let bytes = u128::from(self.bandwidth()) * NEAR_MIN.as_nanos() / NANOS_PER_SECOND;
        u64::try_from(bytes).unwrap_or(UNLIMITED)
    }

    /// Returns the rate of `bytes` per minimum round-trip time, in bytes per second.
    pub(super) fn rate_of(&self, bytes: u32) -> u64 {
        let rate = u128::from(bytes) * NANOS_PER_SECOND / self.min_rtt.as_nanos().max(1);
        u64::try_from(rate).unwrap_or(UNLIMITED)
    }

    /// Returns the rate of two packets per measurement interval, in bytes per second.
    pub(super) fn rate_min(&self, pmdcs: u32) -> u64 {
        let time = self.min_rtt.max(MEASURED_MIN).as_nanos();
        u64::try_from(u128::from(pmdcs) * 2 * NANOS_PER_SECOND / time).unwrap_or(u64::MAX)
    }

    pub(super) fn bandwidth(&self) -> u64 {
        let [now, before] = self.bandwidth;
        now.max(before)
    }

    pub(super) fn min_rtt(&self) -> Duration {
        self.min_rtt
    }

    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn in_flight_high(&self) -> u64 {
        self.in_flight_high
    }
}
