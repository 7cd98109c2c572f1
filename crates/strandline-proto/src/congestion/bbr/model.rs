//! What BBR knows of a path: bandwidth, smallest round-trip time, and what was too much to have in flight.

use core::time::Duration;
use std::collections::VecDeque;

use super::super::controller::Ack;
use super::sent::SentLog;
use crate::time::Time;

/// Moments of the past that are kept: this many in a round trip, and of two round trips.
const MOMENTS_EACH: u32 = 32;
const MOMENTS_MAX: usize = 96;

/// Rates are measured over this long, at least: on shorter paths timers and batches make acknowledgements come in lumps.
pub(super) const MEASURED_MIN: Duration = Duration::from_millis(4);

/// A smallest round-trip time is believed for so long.
const MIN_RTT_HOLDS: Duration = Duration::from_secs(5);

/// Hundredths of what was sent in a round that may be lost where there is a queue, and anywhere.
const LOSS_MAX: u64 = 2;
const LOSS_MAX_WITHOUT_QUEUE: u64 = 20;

/// Bytes sent after which half of what was lost is forgotten, in packets.
const LOSS_MEMORY_PACKETS: u64 = 200;

/// Hundredths of what was in flight that may be after a mark (RFC 8511 has eight tenths for a controller that halves for a loss, and 85
/// hundredths for one that leaves seven tenths).
const MARKED_LEAVES: u64 = 85;

/// Losses that are too few to judge by.
const LOST_PACKETS_MIN: u64 = 6;

/// Times that something is found lost in a round of the start, for that to be a queue's doing and not a burst (the draft's BBRStartupFullLossCnt).
const LOSSES_MIN: u32 = 6;

/// With times as small as the smallest, but for a thirty-second and this, nothing need be looked for; for so long at most.
const NEAR_MIN: Duration = Duration::from_micros(100);
const NEAR_MIN_HOLDS: Duration = Duration::from_secs(15);

/// How much had been delivered at a moment.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Time,
    /// When the latest of that had been sent.
    sent_at: Time,
    delivered: u64,
    /// The application sent less than it might have.
    app_limited: bool,
}

/// What an acknowledgement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// It is the first for what was sent in a new round trip.
    pub(super) round_began: bool,
    pub(super) app_limited: bool,
    /// Too much was lost in the round trip.
    pub(super) lossy: bool,
    /// Losses came at so many moments that they are no burst.
    pub(super) often: bool,
    /// Bytes delivered in the round that ended.
    pub(super) round_bytes: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Model {
    moments: VecDeque<Moment>,
    sent: SentLog,
    delivered: u64,
    /// Bytes a second, the most of this cycle and of the one before.
    bandwidth: [u64; 2],
    min_rtt: Duration,
    min_rtt_at: Time,
    /// Nothing has been acknowledged since nothing was in flight.
    restarted: bool,
    /// The smallest since the last search for it, and between that one and the one before.
    searched_rtt: Duration,
    found_rtt: Duration,
    /// The smallest of this round.
    round_rtt: Duration,
    /// When one was about as small as the smallest.
    near_min_at: Time,
    rounds: u32,
    /// A round ends when what was sent after this had been delivered is acknowledged.
    round_end: u64,
    /// Delivered when the round began, and lost since.
    round_delivered: u64,
    round_lost: u64,
    /// Times that any was found lost since.
    round_losses: u32,
    /// Bytes sent and lost lately in rounds without a queue.
    sent_lately: u64,
    lost_lately: u64,
    /// There was a queue in the round before.
    queued: bool,
    /// The start is over.
    steady: bool,
    /// Others keep a queue, and lose as much in it.
    contested: bool,
    /// The most in flight in this round and in the one before, in which what is acknowledged now was sent.
    round_flight: [u32; 2],
    /// Bytes in flight that were too many; `u64::MAX`: not known.
    in_flight_high: u64,
    /// It was lowered in this round.
    lowered: bool,
    /// Bytes in flight for which the network marks packets, less what a mark takes; `u64::MAX`: it doesn't.
    in_flight_low: u64,
    /// A mark came in this round.
    marked: bool,
    /// Bytes to be acknowledged until all is that was in flight when the sender could send no more: rates measured up to then
    /// are those of the sender, not of the path.
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
            restarted: false,
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
            marked: false,
            starved: 0,
        }
    }

    /// Bytes acknowledged, of the rate at which they were, of the delay. `pmdcs`: a packet.
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
            if rtt <= self.min_rtt + self.min_rtt / 32 + NEAR_MIN {
                self.near_min_at = ack.now;
            }
            let sent_at = Time::from_nanos(ack.now.as_nanos().saturating_sub(rtt.as_nanos() as u64));
            if self.moments.is_empty() {
                // Nothing had been in flight: the rate is measured from when the latest of this was sent.
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

    /// The rate of delivery from the last acknowledgement before the packet was sent to its own, or from one further back; but
    /// no more than that at which it was sent, since acknowledgements may be held up and come together. And no more than was sent
    /// in that time: a SACK has room for some hundred gap blocks, and what comes behind the last of them is acknowledged much
    /// later, all at once.
    fn measure(&mut self, now: Time, sent_at: Time, then: Moment, sample: &mut Sample) {
        let elapsed = now.since(then.at).max(sent_at.since(then.sent_at));
        let elapsed = elapsed.max(self.min_rtt).max(MEASURED_MIN).as_nanos();
        let bytes = (self.delivered - then.delivered).min(self.sent.between(then.sent_at, sent_at));
        let rate = u64::try_from(u128::from(bytes) * 1_000_000_000 / elapsed).unwrap_or(u64::MAX);
        let rate = if self.steady { rate.min(self.longer_rate(now, then)) } else { rate };
        sample.app_limited = then.app_limited;
        if !then.app_limited || rate > self.bandwidth() {
            let [now, _] = &mut self.bandwidth;
            *now = rate.max(*now);
        }
        sample.round_began = then.delivered >= self.round_end;
    }

    /// The rate over half a round trip more: what began in the middle of a lump, with the pause before it left out, looks faster than
    /// it is. Not at the start, where the rate grows so fast that it would look slower.
    fn longer_rate(&self, now: Time, then: Moment) -> u64 {
        let more = now.since(then.at).max(MEASURED_MIN) / 2;
        let before = Time::from_nanos(then.at.as_nanos().saturating_sub(more.as_nanos() as u64));
        let Some(before) = self.moment_before(before) else { return u64::MAX };
        let elapsed = now.since(before.at).as_nanos().max(1);
        let bytes = u128::from(self.delivered - before.delivered);
        u64::try_from(bytes * 1_000_000_000 / elapsed).unwrap_or(u64::MAX)
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
        if !core::mem::take(&mut self.marked) {
            self.in_flight_low = self.in_flight_low.saturating_add(u64::from(pmdcs));
        }
    }

    /// Hundredths that may be lost with a queue: those that are lost without one come on top, twice, as they come by chance.
    fn loss_max(&self) -> u64 {
        let all = self.sent_lately.max(1);
        (LOSS_MAX + self.lost_lately * 200 / all).min(LOSS_MAX_WITHOUT_QUEUE)
    }

    /// Losses that come without a queue say how much of what is sent arrives.
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

    /// Thousandths to send beyond the bandwidth, so that it arrives though some is lost. An eighth less than that, as what
    /// policers drop because too much is sent would otherwise make more be sent; and nothing while there is a queue.
    pub(super) fn lost_permille(&self) -> u64 {
        let arrived = self.sent_lately.saturating_sub(self.lost_lately);
        if self.queued || arrived == 0 {
            return 0;
        }
        (self.lost_lately * 875 / arrived).min(LOSS_MAX_WITHOUT_QUEUE * 10)
    }

    fn remember(&mut self, now: Time, rtt: Option<Duration>, app_limited: bool) {
        // With a queue a round trip is longer than the smallest, and they are to reach back over it all the same.
        let long = rtt.unwrap_or(self.min_rtt);
        let apart =
            if long == Duration::MAX { Duration::ZERO } else { long.max(MEASURED_MIN) / MOMENTS_EACH };
        // Of what had been sent more than once nobody knows which time it was.
        let known = rtt.map(|rtt| Time::from_nanos(now.as_nanos().saturating_sub(rtt.as_nanos() as u64)));
        let sent_before = self.moments.back().map(|last| last.sent_at);
        let sent_at = known.max(sent_before).unwrap_or(now);
        let moment = Moment { at: now, sent_at, delivered: self.delivered, app_limited };
        // Acknowledgements that come together make one moment, the last of theirs: before that, some of what has come is missing.
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

    /// All packets of this round found a queue.
    fn shows_queue(&self) -> bool {
        self.round_rtt != Duration::MAX
            && self.round_rtt > self.min_rtt + (self.min_rtt / 4).max(Duration::from_micros(500))
    }

    /// All packets of the round before found a queue.
    pub(super) fn queued(&self) -> bool {
        self.queued
    }

    pub(super) fn set_steady(&mut self) {
        self.steady = true;
    }

    pub(super) fn set_contested(&mut self, contested: bool) {
        self.contested = contested;
    }

    /// The queue of this round overflows.
    pub(super) fn overflows(&self) -> bool {
        self.round_lost > 0 && self.shows_queue()
    }

    pub(super) fn on_starved(&mut self, flight: u32) {
        self.starved = flight.max(1);
    }

    pub(super) fn on_sent(&mut self, now: Time, bytes: u32) {
        self.sent.on_sent(now, bytes, self.min_rtt);
    }

    pub(super) fn on_lost(&mut self, bytes: u32) {
        self.round_lost += u64::from(bytes);
        self.round_losses = self.round_losses.saturating_add(1);
    }

    /// Nothing was in flight for a while: rates that were measured across that are none.
    pub(super) fn on_idle(&mut self) {
        self.moments.clear();
        self.restarted = true;
    }

    /// Forgets for a longer idle time: the memory of the moments is given back.
    pub(super) fn release_idle(&mut self) {
        self.sent.release();
        self.on_idle();
        self.moments.shrink_to_fit();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.moments.capacity() * size_of::<Moment>() + self.sent.heap_bytes()
    }

    /// This is the first acknowledgement after such a pause.
    pub(super) fn take_restarted(&mut self) -> bool {
        core::mem::take(&mut self.restarted)
    }

    /// What was in flight when what was lost was sent is too much: no more than that from now on, once a round trip.
    pub(super) fn on_congestion(&mut self) {
        if !core::mem::replace(&mut self.lowered, true) {
            let [now, before] = self.round_flight;
            let least = self.in_flight(100) / 10 * 7;
            self.in_flight_high = u64::from(now.max(before)).max(least).min(self.in_flight_high);
        }
    }

    /// The network marked what was sent in this round or in the one before: less than was in flight then may be from now on.
    pub(super) fn on_marked(&mut self) {
        self.marked = true;
        let [now, before] = self.round_flight;
        let flight = u64::from(now.max(before)).min(self.in_flight_low);
        self.in_flight_low = flight / 100 * MARKED_LEAVES;
    }

    /// More is tried again.
    pub(super) fn forget_marks(&mut self) {
        self.in_flight_low = u64::MAX;
    }

    pub(super) fn in_flight_low(&self) -> u64 {
        self.in_flight_low
    }

    /// The start ended with losses: what arrived in its last round fits the path, with its queue.
    pub(super) fn on_start_overflowed(&mut self, sample: &Sample) {
        self.in_flight_high = self.in_flight(100).max(sample.round_bytes);
    }

    /// So much was in flight without harm.
    pub(super) fn raise_in_flight_high(&mut self, flight: u32) {
        if self.in_flight_high != u64::MAX && u64::from(flight) >= self.in_flight_high / 8 * 7 {
            self.in_flight_high = self.in_flight_high.saturating_add(self.in_flight_high / 32);
        }
    }

    /// A cycle of probing begins: the bandwidth of the cycle before the last is forgotten.
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

    /// The round-trip time without a queue has been looked for: it is the smallest since the search before the last, as others
    /// that don't search at the same moment keep their queue.
    pub(super) fn renew_min_rtt(&mut self, now: Time) {
        if self.searched_rtt != Duration::MAX {
            self.min_rtt = self.searched_rtt.min(self.found_rtt);
            self.found_rtt = core::mem::replace(&mut self.searched_rtt, Duration::MAX);
        }
        self.min_rtt_at = now;
    }

    /// Hundredths of the product of bandwidth and delay, in bytes.
    pub(super) fn in_flight(&self, gain: u64) -> u64 {
        if self.min_rtt == Duration::MAX {
            return u64::MAX / 1_000;
        }
        let product = u128::from(self.bandwidth()) * self.min_rtt.as_nanos() / 1_000_000_000;
        u64::try_from(product * u128::from(gain) / 100).unwrap_or(u64::MAX / 1_000)
    }

    /// What is sent in the time by which round trips without a queue differ.
    pub(super) fn near_min_bytes(&self) -> u64 {
        let bytes = u128::from(self.bandwidth()) * NEAR_MIN.as_nanos() / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX / 1_000)
    }

    /// Bytes a second of so many bytes in each smallest round-trip time.
    pub(super) fn rate_of(&self, bytes: u32) -> u64 {
        let rate = u128::from(bytes) * 1_000_000_000 / self.min_rtt.as_nanos().max(1);
        u64::try_from(rate).unwrap_or(u64::MAX / 1_000)
    }

    /// Bytes a second of two packets in the time over which rates are measured.
    pub(super) fn rate_min(&self, pmdcs: u32) -> u64 {
        let time = self.min_rtt.max(MEASURED_MIN).as_nanos();
        u64::try_from(u128::from(pmdcs) * 2_000_000_000 / time).unwrap_or(u64::MAX)
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
