//! The report on phones.

use serde::Serialize;
use strandline_measure::Summary;
use strandline_output::outln;

use super::order::Done;

/// All measurements.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) transport: &'static str,
    /// Number of processes of each side.
    pub(super) processes: usize,
    pub(super) steps: Vec<Step>,
    /// Reconnection of all phones, some at a time.
    pub(super) returned: Option<Returned>,
    /// Reconnection of all phones at once.
    pub(super) storm: Option<Returned>,
    /// Time of the latter divided by that of the former.
    pub(super) storm_ratio: Option<f64>,
}

/// The measurements at one number of phones.
#[derive(Debug, Serialize)]
pub(super) struct Step {
    pub(super) held: u64,
    pub(super) opened_each_second: f64,
    pub(super) registered_each_second: f64,
    /// Bytes of the servers' processes for each added connection, before it sent anything.
    pub(super) memory_each_connection: f64,
    /// Additional bytes for each phone that then registered.
    pub(super) memory_each_registration: f64,
    /// Times of REGISTERs, one by one.
    pub(super) response: Option<Summary>,
    /// Processor time of the servers for one REGISTER in microseconds.
    pub(super) server_cpu_us: f64,
    /// Number of answers with 503.
    pub(super) refused: u64,
}

/// The reconnection of all phones.
#[derive(Debug, Serialize)]
pub(super) struct Returned {
    pub(super) phones: u64,
    pub(super) seconds: f64,
    pub(super) each_second: f64,
    /// Time from when a phone began to connect until it was registered.
    pub(super) times: Option<Summary>,
    /// Number of answers with 503.
    pub(super) refused: u64,
    /// Number of connections that failed.
    pub(super) broken: u64,
}

impl Returned {
    pub(super) fn of(done: &Done) -> Self {
        Self {
            phones: done.phones,
            seconds: done.elapsed_s,
            each_second: done.rate(),
            times: done.times.summary(),
            refused: done.refused,
            broken: done.broken,
        }
    }
}

impl Report {
    /// Prints the report as text.
    pub(super) fn print(&self) {
        outln!("Phones over {}, {} processes on each side", self.transport, self.processes);
        outln!(
            "{:>10} {:>10} {:>12} {:>14} {:>14} {:>10} {:>10} {:>8}",
            "held",
            "opened/s",
            "registered/s",
            "B/connection",
            "B/registration",
            "p50, ms",
            "p99, ms",
            "refused"
        );
        for step in &self.steps {
            let millis = |pick: fn(&Summary) -> f64| step.response.as_ref().map_or(0.0, pick);
            outln!(
                "{:>10} {:>10.0} {:>12.0} {:>14.0} {:>14.0} {:>10.3} {:>10.3} {:>8}",
                step.held,
                step.opened_each_second,
                step.registered_each_second,
                step.memory_each_connection,
                step.memory_each_registration,
                millis(|times| times.p50_ms),
                millis(|times| times.p99_ms),
                step.refused
            );
        }
        for (what, returned) in [("in groups", &self.returned), ("all at once", &self.storm)] {
            let Some(returned) = returned else { continue };
            outln!(
                "{} returned {what}: {:.2} s, {:.0}/s; refused {}, broken connections {}",
                returned.phones,
                returned.seconds,
                returned.each_second,
                returned.refused,
                returned.broken
            );
        }
        if let Some(ratio) = self.storm_ratio {
            outln!("all at once took {ratio:.2} times as long");
        }
    }
}
