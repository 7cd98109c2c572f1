//! Rates in samples of five seconds, as httperf computes them.

use std::time::Duration;

use serde::Serialize;

/// Length of a sample.
const PERIOD: Duration = Duration::from_secs(5);

/// Numbers of events in periods of five seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples {
    periods: Vec<u64>,
}

/// A rate, in events per second. The first four figures are those of the samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Rate {
    pub(super) min: Option<f64>,
    pub(super) avg: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) stddev: Option<f64>,
    pub(super) samples: usize,
    /// All events, divided by the whole time.
    pub(super) overall: f64,
}

impl Samples {
    /// Counts an event at a time since the beginning.
    pub(super) fn count(&mut self, at: Duration) {
        let period = (at.as_nanos() / PERIOD.as_nanos()) as usize;
        if self.periods.len() <= period {
            self.periods.resize(period + 1, 0);
        }
        if let Some(events) = self.periods.get_mut(period) {
            *events += 1;
        }
    }

    /// Returns the rate of a test of the given length. A period that the test ended in is no sample.
    pub(super) fn rate(&self, length: Duration) -> Rate {
        let complete = (length.as_nanos() / PERIOD.as_nanos()) as usize;
        let period = PERIOD.as_secs_f64();
        let events = (0..complete).map(|number| self.periods.get(number).copied().unwrap_or(0));
        let samples: Vec<f64> = events.clone().map(|events| events as f64 / period).collect();
        let has_any = !samples.is_empty();
        let count = samples.len() as f64;
        let avg = events.sum::<u64>() as f64 / period / count;
        let squares: f64 = samples.iter().map(|rate| (rate - avg).powi(2)).sum();
        let stddev = if samples.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        let all: u64 = self.periods.iter().sum();
        Rate {
            min: samples.iter().copied().reduce(f64::min),
            avg: has_any.then_some(avg),
            max: samples.iter().copied().reduce(f64::max),
            stddev: has_any.then_some(stddev),
            samples: samples.len(),
            overall: per_second(all as f64, length),
        }
    }
}

/// Divides by a time; 0 if no time has passed.
pub(super) fn per_second(number: f64, length: Duration) -> f64 {
    if length.is_zero() { 0.0 } else { number / length.as_secs_f64() }
}

#[cfg(test)]
mod tests;
