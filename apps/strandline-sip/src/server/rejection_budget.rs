//! Limits the number of rejections sent under overload. No I/O, no clock.

use std::time::Duration;

use super::arrivals::Times;

/// Fraction of the thread's time that may be spent on sending rejections (decision 40): of its processor time,
/// and of the time in which it has nothing to do. Time used by other processes doesn't count.
const TIME_FRACTION: f64 = 0.02;
/// Factor for the full cost of a rejection, with the ACK or the acknowledgements to be read.
const COST_FACTOR_WITH_ACK: f64 = 3.0;
/// Maximum processor time saved up for rejections, in seconds: 1,000 of them at their initial cost.
const SAVED_SECS_MAX: f64 = 0.01;
/// Estimated cost of a rejection before the first measurement, in seconds of processor time.
const INITIAL_COST_SECS: f64 = 10e-6;
/// Maximum burst of rejections, in seconds of their allowed rate.
const BURST_SECS: f64 = 0.02;
/// Weight of the latest measurement in the estimated cost of a rejection.
const LATEST_WEIGHT: f64 = 0.1;

/// How many rejections may be sent. Further requests are dropped silently, which RFC 3261 section 21.5.4 allows,
/// because answering all of them would leave no time for those that can be served.
#[derive(Debug)]
pub(super) struct RejectionBudget {
    /// Number of rejections that the allowed rate permits now.
    left: f64,
    /// Processor time available for rejections, in seconds.
    saved_secs: f64,
    /// Estimated cost of a rejection, in seconds of processor time.
    cost_secs: f64,
    at: Duration,
    /// The times of this thread at `at`.
    times: Times,
}

impl Default for RejectionBudget {
    fn default() -> Self {
        let (at, times) = Default::default();
        Self { left: 0.0, saved_secs: SAVED_SECS_MAX, cost_secs: INITIAL_COST_SECS, at, times }
    }
}

impl RejectionBudget {
    /// Returns the number of rejections allowed now, of which there may be `per_sec` a second.
    pub(super) fn refill(&mut self, now: Duration, times: Times, per_sec: u32) -> usize {
        let per_sec = f64::from(per_sec);
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        let own = times.worked.saturating_sub(self.times.worked) + times.idle.saturating_sub(self.times.idle);
        (self.at, self.times) = (now, times);
        self.saved_secs = (self.saved_secs + own.as_secs_f64() * TIME_FRACTION).min(SAVED_SECS_MAX);
        self.left = (self.left + elapsed * per_sec).min(1.0 + per_sec * BURST_SECS);
        (self.saved_secs / self.cost_secs).min(self.left).max(0.0) as usize
    }

    /// Records that `count` rejections were sent, and the processor time that this took.
    pub(super) fn spent(&mut self, count: usize, time: Duration) {
        let (count, time) = (count as f64, time.as_secs_f64() * COST_FACTOR_WITH_ACK);
        self.left -= count;
        self.saved_secs -= time;
        self.cost_secs = self.cost_secs * (1.0 - LATEST_WEIGHT) + time / count.max(1.0) * LATEST_WEIGHT;
    }
}

#[cfg(test)]
mod tests;
