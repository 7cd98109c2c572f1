//! BBR, modelled on version 3 (draft-ietf-ccwg-bbr). A model of the path, its bandwidth and minimum round-trip time,
//! determines the sending rate and the amount in flight. Losses limit the amount in flight only if they come with a
//! queue or are many, so random loss does not slow the sender down. ECN marks always reduce it (decision 80).
//!
//! ```text
//!   Startup --- bandwidth stops growing ---> Drain --- the queue is gone ---> ProbeBw
//!                                                                               | ^
//!                      Up <- Refill <- Cruise <- Down, and round again           v |  minimum round-trip
//!                                                                             ProbeRtt  time too old
//! ```

mod aggregation;
mod contest;
mod model;
mod sent;
#[cfg(test)]
mod tests;

use core::time::Duration;

use self::aggregation::Aggregation;
use self::contest::Contest;
use self::model::{BETA, MEASURED_MIN, Model, Sample, resumes};
use super::controller::{Ack, Controller};
use super::rfc9260::initial_window_of_ten;
use crate::time::Time;

// Gains in percent, named as in draft-ietf-ccwg-bbr: pacing gains of the bandwidth, window gains of the
// bandwidth-delay product.

/// StartupPacingGain: 4 ln 2 (section 5.3.1).
const STARTUP_PACING_GAIN: u64 = 277;
/// Window gain of Startup. The draft's 200 doubles the flight only if no rate is measured slightly too low.
const STARTUP_WINDOW_GAIN: u64 = 225;
/// DrainPacingGain (section 5.3.2).
const DRAIN_PACING_GAIN: u64 = 50;
/// Pacing gain of Down (section 5.3.3.1).
const DOWN_PACING_GAIN: u64 = 90;
/// Pacing gain of Down beside competing flows that keep a queue: that of BBR version 1.
const CONTESTED_DOWN_PACING_GAIN: u64 = 75;
/// Pacing gain of Cruise and Refill (sections 5.3.3.2 and 5.3.3.3), and of ProbeRtt: the bandwidth itself.
const UNITY_GAIN: u64 = 100;
/// Pacing gain of Up (section 5.3.3.4).
const UP_PACING_GAIN: u64 = 125;
/// Window gain of Up (section 5.3.3.4).
const UP_WINDOW_GAIN: u64 = 225;
/// DefaultCwndGain, for all other states.
const DEFAULT_WINDOW_GAIN: u64 = 200;
/// ProbeRTTCwndGain (section 5.3.4).
const PROBE_RTT_WINDOW_GAIN: u64 = 50;
/// PacingMarginPercent: the rate is lower by this, so that no queue builds up (section 5.6.2).
const PACING_MARGIN: u64 = 1;

/// Twentieths of the flight limit that Down and Cruise use: 1 - Headroom (0.15), to leave room for other flows.
const WITHOUT_HEADROOM: u64 = 17;

/// ProbeRTTDuration: minimum time in ProbeRtt (section 5.3.4).
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);

/// Rounds without growth that end Startup (section 5.3.1.2).
const FULL_ROUNDS: u8 = 3;

/// Quarters of the bandwidth that a round of Startup must reach to count as growth (section 5.3.1.2).
const STARTUP_GROWTH_QUARTERS: u64 = 5;

/// Tenths of the bandwidth that a round of Up must exceed to count as growth.
const UP_GROWTH_TENTHS: u64 = 11;

/// Minimum time between two probes for bandwidth, in milliseconds (section 5.3.3). A random part of up to 2^10 ms is
/// added.
const CRUISE_MS_MIN: u64 = 2_000;
const CRUISE_MS_BITS: u32 = 10;

/// 2^64 divided by the golden ratio: multiplication by it spreads similar numbers (Fibonacci hashing).
const SPREAD_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Rounds after which the losses of a phase belong to packets sent in it.
const SETTLED_ROUNDS: u32 = 2;

/// Packets in one batch of the pacer.
const BATCH_PACKETS: u64 = 3;

/// Minimum number of packets in flight, whatever the model says, so that acknowledgements keep coming (MinPipeCwnd).
const WINDOW_MIN: u32 = 4;

/// Length of a cruise beside competing flows that keep a queue, in rounds. It is that of BBR version 1, so that
/// neither side yields.
const CONTESTED_ROUNDS: u32 = 6;

/// Amount in flight beside such flows, in percent of the bandwidth-delay product. They measured the round-trip time
/// behind a queue and take that for the path's.
const CONTESTED_FLIGHT: u64 = 250;

/// Minimum round-trip time for detecting such flows. On shorter paths the queue that batches and timers cause looks
/// like theirs.
const CONTESTED_RTT_MIN: Duration = Duration::from_millis(10);

/// Part of the window, in percent, that paces Startup after a pause, where no acknowledgements clock what is sent: with
/// the gain, 125 % of a window in a round trip. Up to `RESUMED_BYTES`, a carrier's burst, the window paces as a whole.
const RESUMED_WINDOW: u32 = 45;
const RESUMED_BYTES: u32 = 65_000;

/// Number of initial rounds in which the window grows by the acknowledged bytes, whatever rate was measured.
const FIRST_ROUNDS: u32 = 3;

/// A phase of bandwidth probing (section 5.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Sends more slowly than the path until the queue of the probe is gone.
    Down,
    /// Sends at the rate of the path.
    Cruise,
    /// Fills the path for one round trip before the probe.
    Refill,
    /// Sends faster than the path.
    Up,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Doubles the rate each round trip (section 5.3.1).
    Startup,
    /// Drains the queue that Startup left (section 5.3.2).
    Drain,
    ProbeBw(Phase),
    /// Keeps little in flight to measure the round-trip time without a queue (section 5.3.4).
    ProbeRtt,
}

/// The BBR controller.
#[derive(Debug, Clone)]
pub struct Bbr {
    cwnd: u32,
    pmdcs: u32,
    /// The path model, allocated with the first acknowledgement.
    path: Option<Box<PathModel>>,
    /// The window before a time-out; 0 if there was none.
    before: u32,
}

#[derive(Debug, Clone)]
struct PathModel {
    state: State,
    model: Model,
    aggregation: Aggregation,
    /// Bandwidth that the next round must exceed by a quarter to count as growth, and number of rounds without
    /// growth.
    full_bandwidth: u64,
    full_rounds: u8,
    /// Time of the last such comparison.
    full_at: Time,
    filled: bool,
    /// Start of the phase or state, as a time and as a round number.
    since: Time,
    since_round: u32,
    /// Time between two probes for bandwidth.
    cruise: Duration,
    contest: Contest,
}

/// Returns the part of a flight limit that leaves headroom for other flows.
const fn with_headroom(bytes: u64) -> u64 {
    bytes / 20 * WITHOUT_HEADROOM
}

impl PathModel {
    fn enter(&mut self, now: Time, state: State) {
        self.state = state;
        self.since = now;
        self.since_round = self.model.rounds();
        if state == State::ProbeBw(Phase::Refill) {
            self.model.forget_marks();
        }
        if state == State::ProbeBw(Phase::Up) {
            (self.full_bandwidth, self.full_at) = (self.model.bandwidth(), now);
        }
        if state == State::ProbeBw(Phase::Down) {
            self.model.begin_cycle();
            // A random part keeps flows from probing in step.
            let spread = self.model.delivered().wrapping_mul(SPREAD_FACTOR) >> (u64::BITS - CRUISE_MS_BITS);
            self.cruise = Duration::from_millis(CRUISE_MS_MIN + spread);
        }
    }

    fn lasted(&self, now: Time) -> Duration {
        now.since(self.since)
    }

    /// Returns the pacing gain in percent of the bandwidth and the window gain in percent of the bandwidth-delay
    /// product.
    fn gains(&self) -> (u64, u64) {
        match self.state {
            State::Startup => (STARTUP_PACING_GAIN, STARTUP_WINDOW_GAIN),
            State::Drain => (DRAIN_PACING_GAIN, DEFAULT_WINDOW_GAIN),
            State::ProbeBw(phase) if self.contest.contested() => match phase {
                Phase::Down => (CONTESTED_DOWN_PACING_GAIN, CONTESTED_FLIGHT),
                Phase::Up => (UP_PACING_GAIN, CONTESTED_FLIGHT),
                Phase::Cruise | Phase::Refill => (UNITY_GAIN, CONTESTED_FLIGHT),
            },
            State::ProbeBw(Phase::Down) => (DOWN_PACING_GAIN, DEFAULT_WINDOW_GAIN),
            State::ProbeBw(Phase::Cruise | Phase::Refill) => (UNITY_GAIN, DEFAULT_WINDOW_GAIN),
            State::ProbeBw(Phase::Up) => (UP_PACING_GAIN, UP_WINDOW_GAIN),
            State::ProbeRtt => (UNITY_GAIN, PROBE_RTT_WINDOW_GAIN),
        }
    }

    /// Raises a small flight to the minimum window. Acknowledgements that cover several packets need at least this
    /// much.
    fn quantised(bytes: u64, pmdcs: u32) -> u64 {
        bytes.max(u64::from(pmdcs) * u64::from(WINDOW_MIN))
    }

    /// Returns the flight at which the queue counts as drained: `bytes`, plus what a batch and a delayed
    /// acknowledgement add, which on a local network is more than the path holds. With a lower bound Down would never
    /// end and the sender would stay at nine tenths of the rate.
    fn without_queue(&self, bytes: u64, pmdcs: u32) -> u64 {
        Self::quantised(bytes + self.model.near_min_bytes(), pmdcs)
    }

    /// Handles a sample. `flight` is what was in flight before the acknowledgement, `left` after it.
    fn on_sample(&mut self, now: Time, sample: &Sample, flight: u32, left: u32, pmdcs: u32) {
        match self.state {
            State::Startup => self.on_startup(now, sample),
            State::Drain => {
                if u64::from(left) <= self.without_queue(self.model.in_flight(UNITY_GAIN), pmdcs) {
                    self.enter(now, State::ProbeBw(Phase::Down));
                }
            }
            State::ProbeBw(Phase::Up) => self.on_probe_bw(now, sample, Phase::Up, flight, pmdcs),
            State::ProbeBw(phase) => self.on_probe_bw(now, sample, phase, left, pmdcs),
            State::ProbeRtt => {
                let waited = self.lasted(now) >= PROBE_RTT_DURATION;
                if waited && self.model.rounds() != self.since_round {
                    self.model.renew_min_rtt(now);
                    let next = if self.filled { State::ProbeBw(Phase::Cruise) } else { State::Startup };
                    self.enter(now, next);
                }
            }
        }
        let restarted = self.model.take_restarted();
        if self.state != State::ProbeRtt && self.model.min_rtt_is_old(now) {
            if restarted {
                // The application was idle, so the samples contain no queue of this flow. There is no need to probe.
                self.model.renew_min_rtt(now);
            } else {
                self.enter(now, State::ProbeRtt);
            }
        }
    }

    fn on_startup(&mut self, now: Time, sample: &Sample) {
        if sample.round_began && !sample.app_limited {
            if self.model.bandwidth() >= self.full_bandwidth / 4 * STARTUP_GROWTH_QUARTERS {
                self.full_bandwidth = self.model.bandwidth();
                (self.full_rounds, self.full_at) = (0, now);
            } else if now.since(self.full_at) >= MEASURED_MIN {
                // Rounds shorter than the measurement interval cannot show that the rate grows.
                self.full_at = now;
                // With a standing queue the path has no bandwidth left.
                self.full_rounds += if self.model.queued() { 2 } else { 1 };
            }
        }
        if self.full_rounds >= FULL_ROUNDS || sample.often {
            if sample.lossy {
                self.model.on_start_overflowed(sample);
            }
            self.end_startup(now);
        }
    }

    /// Handles a sample in `phase`. `flight` is what was in flight before the acknowledgement in Up, and
    /// after it in the other phases.
    fn on_probe_bw(&mut self, now: Time, sample: &Sample, phase: Phase, flight: u32, pmdcs: u32) {
        let next = match phase {
            Phase::Down => {
                let enough = self.model.in_flight(UNITY_GAIN).min(with_headroom(self.in_flight_high(pmdcs)));
                let drained = u64::from(flight) <= self.without_queue(enough, pmdcs);
                // A queue of competing flows does not drain.
                let enough = self.contest.contested() && self.lasted(now) > self.model.min_rtt();
                (drained || enough).then_some(Phase::Cruise)
            }
            Phase::Cruise => self.on_cruise(now, sample).then_some(Phase::Refill),
            Phase::Refill => (self.model.rounds() != self.since_round).then_some(Phase::Up),
            Phase::Up => self.on_up(now, sample, flight, pmdcs),
        };
        // The first losses of a phase belong to packets sent in the previous state, before this one could compensate.
        let settled = self.model.rounds().wrapping_sub(self.since_round) >= SETTLED_ROUNDS;
        if sample.lossy && settled && phase == Phase::Cruise {
            self.model.on_congestion();
        }
        if let Some(phase) = next {
            self.enter(now, State::ProbeBw(phase));
        }
    }

    /// Handles a sample in Cruise. Returns true when it is time to probe for bandwidth.
    fn on_cruise(&mut self, now: Time, sample: &Sample) -> bool {
        let rounds = self.model.rounds().wrapping_sub(self.since_round);
        // The first round may still see the queue of the probe.
        if sample.round_began && rounds >= 2 && self.model.min_rtt() >= CONTESTED_RTT_MIN {
            self.contest.note(self.model.queued());
        }
        let over = match self.contest.contested() {
            true => rounds >= CONTESTED_ROUNDS,
            false => self.lasted(now) >= self.cruise,
        };
        if over {
            self.contest.judge();
            self.model.set_contested(self.contest.contested());
        }
        over
    }

    /// Handles a sample in Up, which lasts as long as the path yields more. Returns the next phase when it is over.
    fn on_up(&mut self, now: Time, sample: &Sample, flight: u32, pmdcs: u32) -> Option<Phase> {
        if sample.lossy {
            self.model.on_congestion();
            return Some(Phase::Down);
        }
        self.model.raise_in_flight_high(flight);
        // Rounds shorter than the measurement interval cannot show that the rate grows.
        if !sample.round_began || now.since(self.full_at) < MEASURED_MIN {
            return None;
        }
        if self.model.bandwidth() > self.full_bandwidth / 10 * UP_GROWTH_TENTHS {
            (self.full_bandwidth, self.full_at) = (self.model.bandwidth(), now);
            return None;
        }
        let a_round = self.model.rounds() != self.since_round && self.lasted(now) > self.model.min_rtt();
        let full = u64::from(flight) >= Self::quantised(self.model.in_flight(UP_PACING_GAIN), pmdcs);
        // An application that sends less never fills the path.
        (a_round && (full || sample.app_limited)).then_some(Phase::Down)
    }

    /// Returns the bytes allowed in flight beyond the model: a batch of the pacer, and what one
    /// acknowledgement covers: within the measurement interval, and beyond that in a bunch. With less, a
    /// burst of losses takes everything that a local network holds, and no acknowledgement reveals it.
    fn extra(&self, pmdcs: u32) -> u64 {
        let usual = self.model.bandwidth() / 1_000 * MEASURED_MIN.as_millis() as u64;
        let excess = self.aggregation.excess();
        // The window gains leave room for bunches of half of what the path holds.
        let bunched = excess > usual.max(self.model.in_flight(UNITY_GAIN) / 2);
        u64::from(pmdcs) * BATCH_PACKETS + if bunched { usual + excess } else { usual }
    }

    /// Updates how much is acknowledged at once. What a SACK had no room to report before does not count.
    fn count_excess(&mut self, ack: &Ack, cwnd: u32) {
        if ack.latest_is_late {
            return self.aggregation.interrupt(ack.now);
        }
        let (bandwidth, rounds, steady) = (self.model.bandwidth(), self.model.rounds(), self.filled);
        let moment = aggregation::Moment { now: ack.now, bandwidth, rounds, steady };
        self.aggregation.on_ack(ack.acked_bytes, cwnd, moment);
    }

    /// Returns the flight in bytes that proved too large, at least as much as keeps the path busy.
    fn in_flight_high(&self, pmdcs: u32) -> u64 {
        let least = Self::quantised(self.model.in_flight(BETA) + self.extra(pmdcs), pmdcs);
        self.model.in_flight_high().max(least)
    }

    /// Returns the number of bytes that may be in flight.
    fn target(&self, pmdcs: u32) -> u64 {
        let (_, gain) = self.gains();
        let extra = if self.state == State::ProbeRtt { 0 } else { self.extra(pmdcs) };
        let high = match self.state {
            // Competing flows take all the room that is left.
            _ if self.contest.contested() => u64::MAX,
            // Leave headroom for other flows.
            State::ProbeBw(Phase::Cruise) => with_headroom(self.in_flight_high(pmdcs)),
            _ => self.in_flight_high(pmdcs),
        };
        (self.model.in_flight(gain) + extra).min(high).min(self.model.in_flight_low())
    }

    /// Reacts to an ECN mark: ends Startup or the probe, and lowers the flight.
    fn on_marked(&mut self, now: Time) {
        self.model.on_marked();
        match self.state {
            State::Startup => self.end_startup(now),
            State::ProbeBw(Phase::Refill | Phase::Up) => self.enter(now, State::ProbeBw(Phase::Down)),
            _ => {}
        }
    }

    fn end_startup(&mut self, now: Time) {
        self.filled = true;
        self.model.set_steady();
        self.enter(now, State::Drain);
    }
}

impl Bbr {
    /// Creates a controller with the initial window of RFC 6928. `pmdcs` is in bytes.
    #[must_use]
    pub fn new(pmdcs: u32) -> Self {
        let pmdcs = pmdcs.max(1);
        Self { cwnd: initial_window_of_ten(pmdcs), pmdcs, path: None, before: 0 }
    }

    fn path(&mut self, now: Time) -> &mut PathModel {
        self.path.get_or_insert_with(|| {
            Box::new(PathModel {
                state: State::Startup,
                model: Model::new(now),
                aggregation: Aggregation::new(now),
                full_bandwidth: 0,
                full_rounds: 0,
                full_at: now,
                filled: false,
                since: now,
                since_round: 0,
                cruise: Duration::ZERO,
                contest: Contest::default(),
            })
        })
    }

    fn window_min(&self) -> u32 {
        self.pmdcs.saturating_mul(WINDOW_MIN)
    }

    /// Returns the bytes that are paced at least, with the gain of Startup, in a round trip. The whole window would
    /// overflow a queue of one bandwidth-delay product after a pause.
    fn paced_window(&self, path: &PathModel) -> u32 {
        if resumes(&path.model) {
            self.cwnd.min(RESUMED_BYTES).max(self.cwnd / 100 * RESUMED_WINDOW)
        } else {
            self.cwnd
        }
    }

    fn set_window(&mut self, acked: u32) {
        let (pmdcs, least) = (self.pmdcs, self.window_min());
        let Some(path) = &self.path else { return };
        let target = u32::try_from(path.target(pmdcs)).unwrap_or(u32::MAX);
        let grown = self.cwnd.saturating_add(acked);
        self.cwnd = match path.state {
            // In the first rounds, and while the window is below the target, the model knows too little to limit the
            // window.
            State::Startup => {
                let unknown = self.cwnd < target || path.model.rounds() < FIRST_ROUNDS;
                if unknown && !path.model.overflows() { grown } else { self.cwnd }
            }
            _ => grown.min(target),
        };
        self.cwnd = self.cwnd.max(least);
    }
}

impl Controller for Bbr {
    fn window(&self) -> u32 {
        self.cwnd
    }

    fn slow_start_threshold(&self) -> u32 {
        u32::MAX
    }

    fn pacing_rate(&self) -> Option<u64> {
        let path = self.path.as_ref()?;
        let (gain, _) = path.gains();
        let least = match path.state {
            // The first sample may come from a message of one byte.
            State::Startup => {
                path.model.rate_of(initial_window_of_ten(self.pmdcs).max(self.paced_window(path)))
            }
            // A low measured rate must not prevent better measurements.
            _ => path.model.rate_min(self.pmdcs),
        };
        let rate = path.model.bandwidth().max(least) / 100 * gain / 100 * (100 - PACING_MARGIN);
        // The measured bandwidth is what arrives. Send more to make up for losses.
        let sent = match path.state {
            State::ProbeBw(Phase::Cruise | Phase::Refill) => rate + rate / 1_000 * path.model.lost_permille(),
            _ => rate,
        };
        (sent > 0).then_some(sent)
    }

    fn recovers_in_proportion(&self) -> bool {
        false
    }

    fn on_ack(&mut self, ack: &Ack) {
        let flight = ack.flight_before;
        let pmdcs = self.pmdcs;
        let cwnd = self.cwnd;
        let path = self.path(ack.now);
        path.count_excess(ack, cwnd);
        let sample = path.model.on_ack(ack, pmdcs);
        path.on_sample(ack.now, &sample, flight, flight.saturating_sub(ack.acked_bytes), pmdcs);
        self.set_window(ack.acked_bytes);
    }

    fn on_starved(&mut self, flight: u32) {
        if let Some(path) = &mut self.path {
            path.model.on_starved(flight);
        }
    }

    fn on_sent(&mut self, now: Time, bytes: u32) {
        if let Some(path) = &mut self.path {
            path.model.on_sent(now, bytes);
        }
    }

    fn on_lost(&mut self, bytes: u32) {
        let least = self.window_min();
        if let Some(path) = &mut self.path {
            path.model.on_lost(bytes);
            // The queue that overflowed is still full, so nothing is sent in place of the lost data.
            if path.model.overflows() {
                self.cwnd = self.cwnd.saturating_sub(bytes).max(least);
            }
        }
    }

    fn on_fast_retransmit(&mut self, _now: Time) {
        self.before = 0;
    }

    fn on_timeout(&mut self, _now: Time) {
        // Of several time-outs in a row the largest window counts.
        self.before = self.before.max(self.cwnd);
        self.cwnd = self.cwnd.min(self.pmdcs);
    }

    fn on_certain(&mut self) {
        self.before = 0;
    }

    fn on_undo(&mut self) {
        self.cwnd = self.cwnd.max(core::mem::take(&mut self.before));
    }

    fn on_ecn(&mut self, now: Time) {
        self.path(now).on_marked(now);
        self.set_window(0);
    }

    fn heap_bytes(&self) -> usize {
        self.path.as_ref().map_or(0, |path| size_of::<PathModel>() + path.model.heap_bytes())
    }

    fn release_idle(&mut self) {
        if let Some(path) = &mut self.path {
            path.model.release_idle();
        }
    }

    fn on_idle(&mut self, _rto_periods: u32) {
        // After an idle period the rate of the model limits what is sent.
        if let Some(path) = &mut self.path {
            path.model.on_idle();
        }
    }

    fn on_mtu(&mut self, pmdcs: u32) {
        self.pmdcs = pmdcs.max(1);
        let started = self.path.as_ref().is_some_and(|path| path.filled);
        let least = if started { self.pmdcs } else { initial_window_of_ten(self.pmdcs) };
        self.cwnd = self.cwnd.max(least);
    }
}
