//! Metrics for Prometheus (text format 0.0.4).
//!
//! ```
//! use strandline_ops::metrics::{CONTENT_TYPE, Page};
//!
//! let mut page = Page::new("strandline_x");
//! page.counter("requests_total", "Requests handled.", 7);
//! page.gauges("transactions", "Open transactions.", "side", [("server", 1.0), ("client", 0.5)]);
//! assert!(CONTENT_TYPE.starts_with("text/plain; version=0.0.4"));
//! assert_eq!(
//!     page.into_text(),
//!     "# HELP strandline_x_requests_total Requests handled.\n\
//!      ## TYPE strandline_x_requests_total counter\n\
//!      strandline_x_requests_total 7\n\
//!      ## HELP strandline_x_transactions Open transactions.\n\
//!      ## TYPE strandline_x_transactions gauge\n\
//!      strandline_x_transactions{side=\"server\"} 1\n\
//!      strandline_x_transactions{side=\"client\"} 0.5\n"
//! );
//! ```

mod histogram;
mod merge;

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::process;

pub use histogram::Histogram;
pub use merge::merge;
pub use prometheus_text::CONTENT_TYPE;

/// The metrics of a server at one moment, in the order in which they were added.
#[derive(Debug)]
pub struct Page(Registry);

impl Page {
    /// Creates an empty page. All names on it begin with `prefix` and an underscore.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self(Registry::with_prefix(prefix))
    }

    /// Adds a counter. Its name ends in `_total`, and the help text is a sentence.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.add(name, help, Family::one(MetricType::Counter, value as f64));
    }

    /// Adds a counter of time, in seconds.
    pub fn seconds_counter(&mut self, name: &str, help: &str, time: Duration) {
        self.add(name, help, Family::one(MetricType::Counter, time.as_secs_f64()));
    }

    /// Adds counters of one name, one for each value of a label.
    pub fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        samples: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        let samples = samples.into_iter().map(|(value, count)| (value, count as f64));
        self.add(name, help, Family::of(MetricType::Counter, label, samples));
    }

    /// Adds counters of one name, one for each pair of values of two labels.
    pub fn counters_of_two<'a>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&'static str; 2],
        samples: impl IntoIterator<Item = ((&'a str, &'a str), u64)>,
    ) {
        let sample = |((one, other), count): ((&str, &str), u64)| {
            let [first, second] = labels;
            (vec![(first, one.to_owned()), (second, other.to_owned())], count as f64)
        };
        let samples = samples.into_iter().map(sample).collect();
        self.add(name, help, Family { kind: MetricType::Counter, samples });
    }

    /// Adds a gauge.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.add(name, help, Family::one(MetricType::Gauge, value));
    }

    /// Adds gauges of one name, one for each value of a label.
    pub fn gauges<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        samples: impl IntoIterator<Item = (&'a str, f64)>,
    ) {
        self.add(name, help, Family::of(MetricType::Gauge, label, samples));
    }

    /// Adds a histogram.
    pub fn histogram(&mut self, name: &str, help: &str, times: &Histogram) {
        self.0.register(name, without_dot(help), Times(*times));
    }

    /// Adds the process metrics, with their usual names: version, start time (in seconds since 1970), CPU
    /// time, memory, and the limit of open files.
    pub fn process(&mut self, version: &str, begun_unix_secs: u64) {
        let help = "Version of the program, as a label; the value is 1.";
        self.gauges("build_info", help, "version", [(version, 1.0)]);
        let start = begun_unix_secs as f64;
        let help = "Start time of the process since the Unix epoch in seconds.";
        self.gauge("process_start_time_seconds", help, start);
        let Some(taken) = process::taken() else { return };
        let cpu = Duration::try_from_secs_f64(taken.cpu_secs).unwrap_or_default();
        let help = "Total user and system CPU time in seconds.";
        self.seconds_counter("process_cpu_seconds_total", help, cpu);
        let help = "Resident memory size in bytes.";
        self.gauge("process_resident_memory_bytes", help, taken.resident_bytes as f64);
        if let Some(files) = taken.files_max {
            let help = "Maximum number of open file descriptors; each connection takes one.";
            self.gauge("process_max_fds", help, files as f64);
        }
    }

    /// The page as text.
    #[must_use]
    pub fn into_text(self) -> String {
        let mut text = String::with_capacity(16_384);
        // Writing to a string doesn't fail.
        let _ = prometheus_text::encode(&mut text, &self.0);
        text
    }

    fn add(&mut self, name: &str, help: &str, family: Family) {
        // The encoder appends `_total` to the name of a counter.
        let name = match family.kind {
            MetricType::Counter => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        self.0.register(name, without_dot(help), family);
    }
}

/// A help text without its full stop, which the registry appends.
fn without_dot(help: &str) -> &str {
    help.strip_suffix('.').unwrap_or(help)
}

/// Counters or gauges of one name.
#[derive(Debug)]
struct Family {
    kind: MetricType,
    /// Values, each with its labels.
    samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

impl Family {
    fn one(kind: MetricType, value: f64) -> Self {
        Self { kind, samples: vec![(Vec::new(), value)] }
    }

    fn of<'a>(
        kind: MetricType,
        label: &'static str,
        samples: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Self {
        let samples = samples.into_iter();
        Self { kind, samples: samples.map(|(name, value)| (vec![(label, name.to_owned())], value)).collect() }
    }

    fn encode_value(&self, value: f64, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        // A number without a fraction is written without one.
        let whole = Some(value as i64).filter(|whole| *whole as f64 == value && value.abs() < 9e15);
        match (self.kind, whole) {
            (MetricType::Counter, Some(whole)) => {
                encoder.encode_counter::<NoLabelSet, _, u64>(&whole.unsigned_abs(), None)
            }
            (MetricType::Counter, None) => encoder.encode_counter::<NoLabelSet, _, u64>(&value, None),
            (_, Some(whole)) => encoder.encode_gauge(&whole),
            (_, None) => encoder.encode_gauge(&value),
        }
    }
}

impl EncodeMetric for Family {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, value) in &self.samples {
            let labels: Vec<(&str, &str)> =
                labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
            self.encode_value(*value, encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        self.kind
    }
}

/// A histogram on a page.
#[derive(Debug)]
struct Times(Histogram);

impl EncodeMetric for Times {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let Self(times) = self;
        let buckets: Vec<(f64, u64)> = times.buckets().collect();
        encoder.encode_histogram::<NoLabelSet>(times.sum().as_secs_f64(), times.count(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests;
