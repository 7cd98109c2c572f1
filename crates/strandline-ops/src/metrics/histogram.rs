//! A histogram of durations in the form of Prometheus, counted since the start.

use std::time::Duration;

/// The upper bounds of the buckets, in microseconds.
const BOUNDS: [u64; 13] = [
    500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000,
];

/// A histogram of durations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Histogram {
    /// One counter for each bound, and one for durations beyond the last.
    counts: [u64; BOUNDS.len() + 1],
    sum: Duration,
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let step = BOUNDS.partition_point(|bound| *bound < micros);
        if let Some(count) = self.counts.get_mut(step) {
            *count += 1;
        }
        self.sum = self.sum.saturating_add(time);
    }

    /// Pairs of a bound in seconds and the number of durations in its bucket alone.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        BOUNDS.into_iter().map(|bound| bound as f64 / 1e6).zip(self.counts)
    }

    /// The number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all durations.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

#[cfg(test)]
mod tests;
