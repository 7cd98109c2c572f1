//! Statistics of the lateness of packets.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Largest lateness recorded: a minute.
const MAX_NS: u64 = 60_000_000_000;

/// The distribution of packets' lateness.
#[derive(Debug, Clone)]
pub struct Lateness {
    /// `None` only if the library refuses the constants, which its documentation allows.
    histogram: Option<Histogram<u64>>,
}

/// A summary, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LatenessSummary {
    /// Packets delivered.
    pub count: u64,
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// The largest.
    pub max_us: f64,
}

impl Lateness {
    /// Creates an empty distribution.
    #[must_use]
    pub fn new() -> Self {
        // Two significant digits: percentiles are exact to 1 %.
        Self { histogram: Histogram::new_with_max(MAX_NS, 2).ok() }
    }

    /// Records a packet.
    pub fn record(&mut self, late_ns: u64) {
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(late_ns);
        }
    }

    /// Adds the packets of another distribution.
    pub fn add(&mut self, other: &Self) {
        if let (Some(histogram), Some(other)) = (&mut self.histogram, &other.histogram) {
            // Both have the same range, so this succeeds.
            let _ = histogram.add(other);
        }
    }

    /// Returns the summary.
    #[must_use]
    pub fn summary(&self) -> LatenessSummary {
        let Some(histogram) = &self.histogram else { return LatenessSummary::default() };
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        LatenessSummary {
            count: histogram.len(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max() as f64 / 1e3,
        }
    }
}

impl Default for Lateness {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
