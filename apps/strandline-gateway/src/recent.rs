//! How many events there were lately.

use tokio::time::Instant;

/// A number of events, of which those of a second ago count a third (1/e).
#[derive(Debug, Default)]
pub(crate) struct Recent {
    count: f64,
    at: Option<Instant>,
}

impl Recent {
    pub(crate) fn count(&mut self, now: Instant) -> f64 {
        let passed = self.at.map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64());
        self.at = Some(now);
        self.count *= (-passed).exp();
        self.count
    }

    /// Adds an event at the time of the latest [`count`](Self::count).
    pub(crate) fn add(&mut self) {
        self.count += 1.0;
    }
}
