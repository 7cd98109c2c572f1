//! Admission control: once there is more load than can be handled, limits how many new requests may wait, to
//! as many as can be served within half of the maximum waiting time. Further requests are rejected as they
//! are read, which costs next to nothing. No I/O, no clock.

use std::time::Duration;

use crate::transaction::Time;

/// The measurement interval.
const WINDOW: Duration = Duration::from_millis(100);
/// Number of intervals without rejections after which the overload is over.
const QUIET: u32 = 10;
/// Minimum number of requests that may wait.
const ROOM_MIN: f64 = 32.0;
/// Factor by which the estimated capacity grows while there was spare time.
const GROWTH: f64 = 1.25;
/// Maximum ratio of the estimated to the measured capacity.
const AHEAD: f64 = 1.5;
/// Share of the maximum waiting time within which the waiting requests are to be served.
const SHARE_OF_WAIT: f64 = 0.5;
/// Weight of a measurement in the estimated capacity.
const NEW_WEIGHT: f64 = 0.5;

/// The state of admission control.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// Estimated capacity in requests per millisecond; `None` while there is no overload.
    per_ms: Option<f64>,
    began: Time,
    handled: u32,
    refused: u32,
    /// True if the inbox was empty at some time, so more could have been handled.
    dry: bool,
    quiet: u32,
}

impl Admission {
    /// Records that a request that begins something was handled.
    pub(super) fn on_handled(&mut self) {
        self.handled += 1;
    }

    /// Records that such a request was rejected.
    pub(super) fn on_refused(&mut self) {
        self.refused += 1;
    }

    /// Records that the inbox is empty.
    pub(super) fn on_dry(&mut self) {
        self.dry = true;
    }

    /// Returns true during an overload.
    pub(super) fn is_overloaded(&self) -> bool {
        self.per_ms.is_some()
    }

    /// How many requests may wait, so that they are served within half of `wait_max`.
    pub(super) fn room(&self, wait_max: Duration) -> usize {
        match self.per_ms {
            Some(per_ms) => (per_ms * wait_max.as_millis() as f64 * SHARE_OF_WAIT).max(ROOM_MIN) as usize,
            None => usize::MAX,
        }
    }

    /// Updates the estimate at the end of each interval. Call it often.
    pub(super) fn look(&mut self, now: Time) {
        let elapsed = now - self.began;
        if elapsed < WINDOW {
            return;
        }
        let measured = f64::from(self.handled) / elapsed.as_millis().max(1) as f64;
        let windows = (elapsed.as_millis() / WINDOW.as_millis()) as u32;
        self.quiet = if self.refused > 0 { 0 } else { self.quiet.saturating_add(windows) };
        self.per_ms = match self.per_ms {
            None if self.refused > 0 => Some(measured),
            None => None,
            Some(_) if self.quiet >= QUIET => None,
            // The measured rate was below the capacity, which is found by letting in more, step by step.
            Some(per_ms) if self.dry => {
                Some((per_ms.max(measured) * GROWTH).min(measured * AHEAD).max(per_ms))
            }
            Some(per_ms) => Some(per_ms * (1.0 - NEW_WEIGHT) + measured * NEW_WEIGHT),
        };
        (self.began, self.handled, self.refused, self.dry) = (now, 0, 0, false);
    }
}

#[cfg(test)]
mod tests;
