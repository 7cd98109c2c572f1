//! Times as HDR histograms: from 1 microsecond to minutes with three digits.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest time that is told apart: 10 minutes.
const NANOS_MAX: u64 = 600_000_000_000;

/// Times, in nanoseconds inside.
#[derive(Debug, Clone)]
pub(crate) struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        // The bounds are constants that the histogram takes; the other constructor has no failure.
        let bounded = Histogram::new_with_bounds(100, NANOS_MAX, 3);
        Self(bounded.unwrap_or_else(|_| unreachable!("constant bounds")))
    }
}

impl Times {
    pub(crate) fn record(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(NANOS_MAX);
        self.0.saturating_record(nanos.min(NANOS_MAX));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.0.add(&other.0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Milliseconds at a quantile, 0 to 1; `None` if nothing was recorded.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        (self.count() > 0).then(|| self.0.value_at_quantile(quantile) as f64 / 1e6)
    }

    pub(crate) fn mean_ms(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.0.mean() / 1e6)
    }

    pub(crate) fn summary(&self) -> Option<Summary> {
        Some(Summary {
            count: self.count(),
            mean_ms: self.mean_ms()?,
            p50_ms: self.quantile_ms(0.5)?,
            p90_ms: self.quantile_ms(0.9)?,
            p99_ms: self.quantile_ms(0.99)?,
            p999_ms: self.quantile_ms(0.999)?,
            max_ms: self.quantile_ms(1.0)?,
        })
    }
}

/// What is told of a distribution.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) mean_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) max_ms: f64,
}

/// Between processes: pairs of value and count.
impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())))
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut times = Self::default();
        for (value, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            times.0.saturating_record_n(value, count);
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests;
