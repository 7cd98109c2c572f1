//! Overload control in both directions (RFC 7339, RFC 7415).

use crate::transaction::Time;

use super::feedback::{Feedback, Load};
use super::throttle::{Throttle, ThrottleCounters};

/// Overload control: feedback to upstream neighbours, and feedback from downstream neighbours.
#[derive(Debug)]
pub struct Overload {
    pub(super) feedback: Feedback,
    pub(super) throttle: Throttle,
}

impl Overload {
    pub(super) fn new(epoch_unix_secs: u64, seed: u64) -> Self {
        Self { feedback: Feedback::new(epoch_unix_secs), throttle: Throttle::new(seed) }
    }

    /// Updates the feedback for upstream neighbours from the load since the last call. Call it about every
    /// second.
    pub fn on_load(&mut self, load: &Load) {
        self.feedback.on_load(load);
    }

    /// The share of their requests that upstream neighbours may send: 1 without overload.
    #[must_use]
    pub fn allowed_share(&self) -> f64 {
        self.feedback.share()
    }

    /// Counters of the requests that were withheld from downstream neighbours, and the number of those that
    /// limit their requests now.
    #[must_use]
    pub fn throttled(&self, now: Time) -> (ThrottleCounters, usize) {
        (self.throttle.counters, self.throttle.len(now))
    }
}
