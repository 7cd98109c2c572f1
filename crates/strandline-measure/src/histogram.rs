//! Times as HDR histograms: from 1 microsecond to minutes, with three significant digits.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest time that is distinguished: 10 minutes.
const NANOS_MAX: u64 = 600_000_000_000;

/// A histogram of times, in nanoseconds. It is allocated when the first time is recorded.
#[derive(Debug, Clone, Default)]
pub struct Times(Option<Histogram<u64>>);

impl Times {
    /// Records a time. Times above ten minutes count as ten minutes.
    pub fn record(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(NANOS_MAX);
        self.record_many(nanos, 1);
    }

    fn record_many(&mut self, nanos: u64, count: u64) {
        if self.0.is_none() {
            // The bounds are constants that the histogram accepts.
            self.0 = Histogram::new_with_bounds(100, NANOS_MAX, 3).ok();
        }
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record_n(nanos.min(NANOS_MAX), count);
        }
    }

    /// Adds the times of another histogram.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Some(own), Some(others)) => {
                // Both histograms have the same bounds.
                let _ = own.add(others);
            }
            (None, Some(others)) => self.0 = Some(others.clone()),
            (_, None) => {}
        }
    }

    /// Returns the histogram if anything was recorded.
    fn recorded(&self) -> Option<&Histogram<u64>> {
        self.0.as_ref().filter(|histogram| !histogram.is_empty())
    }

    /// Returns how many times were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.recorded().map_or(0, Histogram::len)
    }

    /// Returns the time in milliseconds at a quantile from 0 to 1; `None` if nothing was recorded.
    #[must_use]
    pub fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        self.recorded().map(|histogram| histogram.value_at_quantile(quantile) as f64 / 1e6)
    }

    /// Returns the mean in milliseconds; `None` if nothing was recorded.
    #[must_use]
    pub fn mean_ms(&self) -> Option<f64> {
        self.recorded().map(|histogram| histogram.mean() / 1e6)
    }

    /// Returns the figures that reports show; `None` if nothing was recorded.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
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

    /// Returns the distribution in milliseconds; `None` if nothing was recorded.
    #[must_use]
    pub fn distribution(&self) -> Option<Distribution> {
        let histogram = self.recorded()?;
        let count = histogram.len() as f64;
        // The histogram divides by n; httperf and others divide by n - 1.
        let correction = if count > 1.0 { (count / (count - 1.0)).sqrt() } else { 0.0 };
        Some(Distribution {
            count: histogram.len(),
            min: histogram.min() as f64 / 1e6,
            mean: histogram.mean() / 1e6,
            stddev: histogram.stdev() * correction / 1e6,
            p50: self.quantile_ms(0.5)?,
            p90: self.quantile_ms(0.9)?,
            p99: self.quantile_ms(0.99)?,
            p999: self.quantile_ms(0.999)?,
            max: self.quantile_ms(1.0)?,
        })
    }
}

/// Figures of a distribution of times, in milliseconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Summary {
    /// Number of times.
    pub count: u64,
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// Longest time.
    pub max_ms: f64,
}

/// A distribution of times in milliseconds, with three significant digits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of times.
    pub count: u64,
    /// Shortest time.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation, with n - 1 in the denominator; 0 for a single time.
    pub stddev: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Longest time.
    pub max: f64,
}

/// The form in which processes exchange times: pairs of value and count.
impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let steps = self.recorded().into_iter().flat_map(Histogram::iter_recorded);
        serializer.collect_seq(steps.map(|step| (step.value_iterated_to(), step.count_at_value())))
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut times = Self::default();
        for (value, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            times.record_many(value, count);
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests;
