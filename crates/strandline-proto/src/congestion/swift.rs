//! A delay-based controller for data centers, modelled on Swift (Kumar et al., "Swift: Delay is Simple and
//! Effective for Congestion Control in the Datacenter", SIGCOMM 2020, section 3). Below a target delay the
//! window grows by one packet per round trip. Above it the window shrinks in proportion to the excess, once
//! per round trip. Differences from the paper: the round-trip time without a queue is measured instead of
//! configured, by emptying the queue now and then, the delay within the hosts is part of it, the window is
//! never below two packets, and the controller begins with slow start.
//!
//! As every delay-based controller, it yields to other flows that fill the queue.

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::additive::Additive;
use super::controller::{Ack, Controller};
use super::rfc9260::initial_window_of_ten;
use crate::time::Time;

/// Target queueing delay: the minimum round-trip time over the divisor, within the bounds. A peer's acknowledgement
/// timers have a granularity of a millisecond, and programs wake up late, so that a smaller delay is no sign of a
/// queue.
const TARGET_DIVISOR: u32 = 4;
const TARGET_MIN_US: u32 = 2_000;
const TARGET_MAX_US: u32 = 10_000;
/// Flow scaling: a window of one packet may cause 1 + `SCALING` times the target queueing delay, a window of
/// `SCALED_PACKETS` or more just the target. The smaller of two flows therefore grows while the larger one shrinks.
const SCALING: f64 = 4.0;
const SCALED_PACKETS: f64 = 100.0;
/// beta and max_mdf of the paper.
const BETA: f64 = 0.8;
const DECREASE_MAX: f64 = 0.5;
/// The minimum round-trip time covers at most two such periods.
const MIN_RTT_PERIOD: Duration = Duration::from_secs(10);
/// A flow that is alone always keeps its target in the queue, and would take that for a part of the path. A period
/// whose minimum exceeds the one before by more than a sixteenth therefore ends with a drain: about half of what the
/// path holds without a queue, for so many round trips (ProbeRTT of BBR does the same).
const RISE_DIVISOR: u32 = 16;
const DRAIN_ROUNDS: u32 = 3;

/// The delay-based controller.
#[derive(Debug, Clone)]
pub struct Swift {
    cwnd: u32,
    pmdcs: u32,
    /// True during slow start.
    starting: bool,
    additive: Additive,
    /// Minimum round-trip times of the current and the previous period, in microseconds; 0 if none was measured.
    min_rtt_us: [u32; 2],
    /// Beginning of the current period, or of the drain at its end.
    period: Time,
    /// The window to return to after the drain; 0 if there is none.
    drained: u32,
    /// Time of the last reduction. The next one is at least a round trip later.
    shrunk: Time,
    rtt_us: u32,
    /// The window before the latest loss, and whether slow start was running.
    before: u32,
    starting_before: bool,
}

impl Swift {
    /// Creates a controller with the initial window of RFC 6928. `pmdcs` is in bytes.
    #[must_use]
    pub fn new(pmdcs: u32) -> Self {
        let pmdcs = pmdcs.max(1);
        Self {
            cwnd: initial_window_of_ten(pmdcs),
            pmdcs,
            starting: true,
            additive: Additive::default(),
            min_rtt_us: [0; 2],
            period: Time::ZERO,
            drained: 0,
            shrunk: Time::ZERO,
            rtt_us: 0,
            before: 0,
            starting_before: false,
        }
    }

    fn window_min(&self) -> u32 {
        self.pmdcs.saturating_mul(2)
    }

    fn min_rtt_us(&self) -> u32 {
        let [now, before] = self.min_rtt_us;
        if now == 0 || before == 0 { now.max(before) } else { now.min(before) }
    }

    /// Returns the target delay in microseconds.
    fn target_us(&self) -> f64 {
        let base = self.min_rtt_us();
        let queue = f64::from((base / TARGET_DIVISOR).clamp(TARGET_MIN_US, TARGET_MAX_US));
        let packets = f64::from(self.cwnd) / f64::from(self.pmdcs);
        let least = SCALED_PACKETS.sqrt().recip();
        let share = (packets.max(1.0).sqrt().recip() - least).max(0.0) / (1.0 - least);
        f64::from(base) + queue * (1.0 + SCALING * share)
    }

    fn on_rtt(&mut self, now: Time, rtt: Duration) {
        self.rtt_us = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX).max(1);
        let current = &mut self.min_rtt_us[0];
        *current = if *current == 0 { self.rtt_us } else { self.rtt_us.min(*current) };
        if self.drained > 0 {
            if now.since(self.period) > Duration::from_micros(self.rtt_us.into()) * DRAIN_ROUNDS {
                self.cwnd = self.cwnd.max(core::mem::take(&mut self.drained));
                self.begin_period(now);
            }
        } else if now.since(self.period) > MIN_RTT_PERIOD {
            self.end_period(now);
        }
    }

    fn begin_period(&mut self, now: Time) {
        let [current, _] = self.min_rtt_us;
        self.min_rtt_us = [0, current];
        self.period = now;
    }

    /// Begins the next period, after a drain if the minimum has risen.
    fn end_period(&mut self, now: Time) {
        let [current, before] = self.min_rtt_us;
        if before == 0 || current <= before + before / RISE_DIVISOR {
            return self.begin_period(now);
        }
        self.drained = self.cwnd;
        let path = f64::from(self.cwnd) * f64::from(before) / f64::from(self.rtt_us.max(before));
        self.cwnd = ((path / 2.0) as u32).max(self.window_min()).min(self.cwnd);
        self.period = now;
    }

    fn may_shrink(&self, now: Time) -> bool {
        now.since(self.shrunk) >= Duration::from_micros(u64::from(self.rtt_us))
    }

    fn shrink(&mut self, now: Time, share: f64) {
        let kept = 1.0 - share.clamp(0.0, DECREASE_MAX);
        self.cwnd = ((f64::from(self.cwnd) * kept) as u32).max(self.window_min());
        self.drained = (f64::from(self.drained) * kept) as u32;
        self.shrunk = now;
        self.starting = false;
        self.additive = Additive::default();
    }

    /// Remembers the window in case the loss is spurious. Of several losses in a row the largest window counts.
    fn remember(&mut self) {
        if self.before == 0 {
            self.starting_before = self.starting;
        }
        self.before = self.before.max(self.cwnd).max(self.drained);
    }

    fn grow(&mut self, ack: &Ack) {
        if ack.in_fast_recovery || ack.ecn_echoed || !ack.window_full {
            return;
        }
        if self.starting {
            self.cwnd = self.cwnd.saturating_add(ack.acked_bytes);
            return;
        }
        self.cwnd = self.additive.grown(self.cwnd, ack.growing_bytes(), self.pmdcs);
    }
}

impl Controller for Swift {
    fn window(&self) -> u32 {
        self.cwnd
    }

    fn slow_start_threshold(&self) -> u32 {
        if self.starting { u32::MAX } else { self.cwnd }
    }

    fn on_ack(&mut self, ack: &Ack) {
        let Some(rtt) = ack.delay().filter(|rtt| !rtt.is_zero()) else { return };
        self.on_rtt(ack.now, rtt);
        if self.drained > 0 {
            return;
        }
        let (delay, target) = (f64::from(self.rtt_us), self.target_us());
        if delay < target {
            self.grow(ack);
        } else if self.may_shrink(ack.now) {
            self.shrink(ack.now, BETA * (delay - target) / delay);
        }
    }

    fn on_fast_retransmit(&mut self, now: Time) {
        self.remember();
        // Halve even if the delay has already shrunk the window in this round trip: all losses of a round trip are
        // one event.
        self.shrink(now, DECREASE_MAX);
    }

    fn on_timeout(&mut self, now: Time) {
        self.remember();
        self.shrink(now, DECREASE_MAX);
        self.cwnd = self.pmdcs;
        self.drained = 0;
    }

    fn on_certain(&mut self) {
        self.before = 0;
    }

    fn on_undo(&mut self) {
        if self.before > 0 {
            self.starting |= self.starting_before;
            self.cwnd = self.cwnd.max(core::mem::take(&mut self.before));
        }
    }

    fn on_ecn(&mut self, now: Time) {
        self.shrink(now, DECREASE_MAX);
    }

    fn on_idle(&mut self, rto_periods: u32) {
        let floor = initial_window_of_ten(self.pmdcs);
        if rto_periods > 0 {
            self.cwnd = self.cwnd.max(core::mem::take(&mut self.drained));
        }
        if rto_periods > 0 && self.cwnd > floor {
            self.cwnd = self.cwnd.checked_shr(rto_periods).unwrap_or(0).max(floor);
        }
    }

    fn on_mtu(&mut self, pmdcs: u32) {
        self.pmdcs = pmdcs.max(1);
        self.cwnd = self.cwnd.max(self.pmdcs);
    }
}
