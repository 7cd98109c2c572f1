//! BBR in the shape of its third version (draft-ietf-ccwg-bbr): a model of the path, its bandwidth and its smallest
//! round-trip time, says at which rate to send and how much may be in flight. Losses bound what may be in flight only
//! where they come with a queue, or are many: a path that loses at random is used all the same. Marks (ECN) are answered each time,
//! see decision 80.
//!
//! ```text
//!   Startup --- bandwidth no longer grows ---> Drain --- the queue is gone ---> ProbeBw
//!                                                                                | ^
//!                       Up <- Refill <- Cruise <- Down, and round again           v |  smallest round-trip
//!                                                                              ProbeRtt  time too old
//! ```

mod contest;
mod model;
mod sent;
#[cfg(test)]
mod tests;

use core::time::Duration;

use self::contest::Contest;
use self::model::{MEASURED_MIN, Model, Sample};
use super::controller::{Ack, Controller};
use super::rfc9260::initial_window_of_ten;
use crate::time::Time;

/// Packets in flight that keep acknowledgements coming, whatever the model says.
const WINDOW_MIN: u32 = 4;

/// Rounds of a cruise beside others that keep a queue: as long as that of version 1, so that none gives way.
const CONTESTED_ROUNDS: u32 = 6;

/// Hundredths of the product of bandwidth and delay in flight beside them: others saw the round-trip time behind a queue, and take that for
/// the path's.
const CONTESTED_FLIGHT: u64 = 250;

/// On shorter paths the queue that batches and timers make looks like one of others.
const CONTESTED_RTT_MIN: Duration = Duration::from_millis(10);

/// Rounds of the start in which the window grows by what is acknowledged, whatever rate that came to so far.
const FIRST_ROUNDS: u32 = 3;

/// A part of the probing for bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Slower than the path, until the queue of the probe is gone.
    Down,
    /// As fast as the path.
    Cruise,
    /// A round trip that fills the path before the probe.
    Refill,
    /// Faster than the path.
    Up,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Doubles the rate each round trip.
    Startup,
    /// The queue of the start goes away.
    Drain,
    ProbeBw(Phase),
    /// Little in flight, so that the round-trip time without a queue shows.
    ProbeRtt,
}

/// The controller.
#[derive(Debug, Clone)]
pub struct Bbr {
    cwnd: u32,
    pmdcs: u32,
    /// Allocated with the first acknowledgement.
    path: Option<Box<PathModel>>,
    /// The window before a time-out.
    before: u32,
}

#[derive(Debug, Clone)]
struct PathModel {
    state: State,
    model: Model,
    /// Bandwidth that a further round of the start has to exceed by a quarter, and rounds in which none did.
    full_bandwidth: u64,
    full_rounds: u8,
    /// When it was looked at.
    full_at: Time,
    filled: bool,
    /// When the phase or state began, and in which round.
    since: Time,
    since_round: u32,
    /// Bandwidth is probed for again after so long.
    cruise: Duration,
    contest: Contest,
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
            self.full_bandwidth = self.model.bandwidth();
        }
        if state == State::ProbeBw(Phase::Down) {
            self.model.begin_cycle();
            // Two to three seconds, so that flows don't probe in step.
            let spread = self.model.delivered().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
            self.cruise = Duration::from_millis(2_000 + spread);
        }
    }

    fn lasted(&self, now: Time) -> Duration {
        now.since(self.since)
    }

    /// Hundredths of the bandwidth to send at, and of the product of bandwidth and delay to have in flight.
    fn gains(&self) -> (u64, u64) {
        match self.state {
            // The draft has 200, which doubles the flight only if no rate is measured a little too low.
            State::Startup => (277, 225),
            State::Drain => (50, 200),
            State::ProbeBw(Phase::Down) if self.contest.contested() => (75, CONTESTED_FLIGHT),
            State::ProbeBw(Phase::Up) if self.contest.contested() => (125, CONTESTED_FLIGHT),
            State::ProbeBw(_) if self.contest.contested() => (100, CONTESTED_FLIGHT),
            State::ProbeBw(Phase::Down) => (90, 200),
            State::ProbeBw(Phase::Cruise | Phase::Refill) => (100, 200),
            State::ProbeBw(Phase::Up) => (125, 225),
            State::ProbeRtt => (100, 50),
        }
    }

    /// What fills the path when that is less than a few packets: fewer are never in flight when acknowledgements come for
    /// several at once.
    fn quantised(bytes: u64, pmdcs: u32) -> u64 {
        bytes.max(u64::from(pmdcs) * u64::from(WINDOW_MIN))
    }

    /// What is in flight once the queue has gone: `bytes`, and what a batch and the time until it is acknowledged add, which on a local network is
    /// more than the path holds. With less it would wait for that for ever, and send at nine tenths meanwhile.
    fn without_queue(&self, bytes: u64, pmdcs: u32) -> u64 {
        Self::quantised(bytes + self.model.near_min_bytes(), pmdcs)
    }

    fn on_sample(&mut self, now: Time, sample: &Sample, flight: u32, pmdcs: u32) {
        match self.state {
            State::Startup => self.on_startup(now, sample),
            State::Drain => {
                if u64::from(flight) <= self.without_queue(self.model.in_flight(100), pmdcs) {
                    self.enter(now, State::ProbeBw(Phase::Down));
                }
            }
            State::ProbeBw(phase) => self.on_probe_bw(now, sample, phase, flight, pmdcs),
            State::ProbeRtt => {
                let waited = self.lasted(now) >= Duration::from_millis(200);
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
                // There was no queue of ours to see it behind: no need to make room for a look.
                self.model.renew_min_rtt(now);
            } else {
                self.enter(now, State::ProbeRtt);
            }
        }
    }

    fn on_startup(&mut self, now: Time, sample: &Sample) {
        if sample.round_began && !sample.app_limited {
            if self.model.bandwidth() >= self.full_bandwidth / 4 * 5 {
                self.full_bandwidth = self.model.bandwidth();
                (self.full_rounds, self.full_at) = (0, now);
            } else if now.since(self.full_at) >= MEASURED_MIN {
                // Rounds that are shorter than what a rate is measured over can't show that it grows.
                self.full_at = now;
                // With a queue in front of it the path gives no more.
                self.full_rounds += if self.model.queued() { 2 } else { 1 };
            }
        }
        if self.full_rounds >= 3 || sample.often {
            if sample.lossy {
                self.model.on_start_overflowed(sample);
            }
            self.end_startup(now);
        }
    }

    fn on_probe_bw(&mut self, now: Time, sample: &Sample, phase: Phase, flight: u32, pmdcs: u32) {
        let next = match phase {
            Phase::Down => {
                let enough = self.model.in_flight(100).min(self.in_flight_high(pmdcs) / 20 * 17);
                let drained = u64::from(flight) <= self.without_queue(enough, pmdcs);
                // Others' queue doesn't go away.
                let enough = self.contest.contested() && self.lasted(now) > self.model.min_rtt();
                (drained || enough).then_some(Phase::Cruise)
            }
            Phase::Cruise => self.on_cruise(now, sample).then_some(Phase::Refill),
            Phase::Refill => (self.model.rounds() != self.since_round).then_some(Phase::Up),
            Phase::Up => self.on_up(now, sample, flight, pmdcs),
        };
        // What is found lost at first had been sent in another state, before this one began to make up for it.
        let settled = self.model.rounds().wrapping_sub(self.since_round) >= 2;
        if sample.lossy && settled && phase == Phase::Cruise {
            self.model.on_congestion();
        }
        if let Some(phase) = next {
            self.enter(now, State::ProbeBw(phase));
        }
    }

    /// True when bandwidth is to be probed for again.
    fn on_cruise(&mut self, now: Time, sample: &Sample) -> bool {
        let rounds = self.model.rounds().wrapping_sub(self.since_round);
        // In the first one the queue of the probe may still be seen.
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

    /// Goes on for as long as the path gives more.
    fn on_up(&mut self, now: Time, sample: &Sample, flight: u32, pmdcs: u32) -> Option<Phase> {
        if sample.lossy {
            self.model.on_congestion();
            return Some(Phase::Down);
        }
        self.model.raise_in_flight_high(flight);
        if !sample.round_began {
            return None;
        }
        if self.model.bandwidth() > self.full_bandwidth / 10 * 11 {
            self.full_bandwidth = self.model.bandwidth();
            return None;
        }
        let a_round = self.model.rounds() != self.since_round && self.lasted(now) > self.model.min_rtt();
        let full = u64::from(flight) >= Self::quantised(self.model.in_flight(125), pmdcs);
        // An application that sends less never fills it.
        (a_round && (full || sample.app_limited)).then_some(Phase::Down)
    }

    /// A batch of the pacer and what one acknowledgement stands for come on top of what the path takes, over the time in which
    /// rates are measured: with less, a burst of losses takes all that a local network holds, and nothing tells of it.
    fn extra(&self, pmdcs: u32) -> u64 {
        u64::from(pmdcs) * 3 + self.model.bandwidth() / 1_000 * 4
    }

    /// Bytes in flight that were too many; never less than what keeps the path busy.
    fn in_flight_high(&self, pmdcs: u32) -> u64 {
        let least = Self::quantised(self.model.in_flight(70) + self.extra(pmdcs), pmdcs);
        self.model.in_flight_high().max(least)
    }

    /// What may be in flight.
    fn target(&self, pmdcs: u32) -> u64 {
        let (_, gain) = self.gains();
        let extra = if self.state == State::ProbeRtt { 0 } else { self.extra(pmdcs) };
        let high = match self.state {
            // Others take all the room that is left.
            _ if self.contest.contested() => u64::MAX,
            // Room for others.
            State::ProbeBw(Phase::Cruise) => self.in_flight_high(pmdcs) / 20 * 17,
            _ => self.in_flight_high(pmdcs),
        };
        (self.model.in_flight(gain) + extra).min(high).min(self.model.in_flight_low())
    }

    /// The network marked a packet: the start or the probe is over, and less may be in flight.
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
    /// The initial window of RFC 6928. `pmdcs` in bytes.
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

    fn set_window(&mut self, acked: u32) {
        let (pmdcs, least) = (self.pmdcs, self.window_min());
        let Some(path) = &self.path else { return };
        let target = u32::try_from(path.target(pmdcs)).unwrap_or(u32::MAX);
        let grown = self.cwnd.saturating_add(acked);
        self.cwnd = match path.state {
            // The model knows too little to bound anything, and nothing while the first windows are acknowledged.
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
        // A hundredth less, so that no queue builds up.
        let least = match path.state {
            // What came first may have been a message of a byte.
            State::Startup => path.model.rate_of(initial_window_of_ten(self.pmdcs)),
            // However little was measured, enough for a better measurement.
            _ => path.model.rate_min(self.pmdcs),
        };
        let rate = path.model.bandwidth().max(least) / 100 * gain / 100 * 99;
        // What arrives is to fill the path, and what was measured is what arrived.
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
        let path = self.path(ack.now);
        let sample = path.model.on_ack(ack, pmdcs);
        path.on_sample(ack.now, &sample, flight, pmdcs);
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
            // What overflowed is still full: nothing goes in the place of what it dropped.
            if path.model.overflows() {
                self.cwnd = self.cwnd.saturating_sub(bytes).max(least);
            }
        }
    }

    fn on_fast_retransmit(&mut self, _now: Time) {
        self.before = 0;
    }

    fn on_timeout(&mut self, _now: Time) {
        // Of several in a row the first counts.
        if self.before == 0 {
            self.before = self.cwnd;
        }
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
        // The rate of the model bounds what goes after a pause.
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
