//! The results of a load.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strandline_measure::{Summary, Times};
use strandline_output::outln;

use super::watch::ServerReport;

/// Counts and times of the operations that began during the measurement.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) begun: u64,
    /// In an open loop: time from the start of the measurement to the actual start of the last operation,
    /// which is later than it was due if this program doesn't keep up.
    pub(super) beginning: Duration,
    pub(super) succeeded: u64,
    /// Operations refused with 503.
    pub(super) refused: u64,
    /// Calls that were answered.
    pub(super) answered: u64,
    pub(super) timed_out: u64,
    pub(super) retransmitted: u64,
    /// Requests sent again with credentials.
    pub(super) challenged: u64,
    /// Keep-alives sent, without retransmissions, and answers to them.
    pub(super) keep_alives: u64,
    pub(super) keep_alives_answered: u64,
    /// Flows on which no answer arrived.
    pub(super) flows_broken: u64,
    /// Final codes that were neither 2xx nor 503.
    pub(super) codes: BTreeMap<u16, u64>,
    /// Time from the moment at which the operation was due to its final answer.
    pub(super) response: Times,
    /// Time of whole calls.
    pub(super) whole: Times,
    /// Operations that succeeded during the measurement, whenever they began.
    pub(super) within: u64,
    /// As `response`, for answers that arrived during the measurement.
    pub(super) response_within: Times,
}

impl Outcome {
    /// Adds the results of another process at the same time. All fields are listed here, so that none is
    /// forgotten.
    pub(super) fn merge(&mut self, other: &Self) {
        let Self {
            begun,
            beginning,
            succeeded,
            refused,
            answered,
            timed_out,
            retransmitted,
            challenged,
            keep_alives,
            keep_alives_answered,
            flows_broken,
            codes,
            response,
            whole,
            within,
            response_within,
        } = other;
        self.begun += begun;
        self.beginning = self.beginning.max(*beginning);
        self.succeeded += succeeded;
        self.refused += refused;
        self.answered += answered;
        self.timed_out += timed_out;
        self.retransmitted += retransmitted;
        self.challenged += challenged;
        self.keep_alives += keep_alives;
        self.keep_alives_answered += keep_alives_answered;
        self.flows_broken += flows_broken;
        for (code, count) in codes {
            *self.codes.entry(*code).or_default() += count;
        }
        self.response.merge(response);
        self.whole.merge(whole);
        self.within += within;
        self.response_within.merge(response_within);
    }
}

/// The measurements of a load.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) outcome: Outcome,
    /// Total operations, warm-up included.
    pub(super) begun: u64,
    /// Connections that ended while they were in use.
    pub(super) lost: u64,
    /// Processor time of the load.
    pub(super) cpu: Duration,
}

impl Measured {
    /// Adds the measurements of another process at the same time.
    pub(super) fn merge(&mut self, other: &Self) {
        self.outcome.merge(&other.outcome);
        self.begun += other.begun;
        self.lost += other.lost;
        self.cpu += other.cpu;
    }
}

/// The report that `--json` prints.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct SipReport {
    pub(super) scenario: String,
    pub(super) transport: &'static str,
    pub(super) processes: u32,
    pub(super) sources: usize,
    pub(super) users: u32,
    /// Requested operations per second; `None` in a closed loop.
    pub(super) rate_asked: Option<f64>,
    /// Operations per second that really began, whatever their result.
    pub(super) rate_reached: Option<f64>,
    pub(super) outstanding: Option<usize>,
    pub(super) seconds: f64,
    pub(super) begun: u64,
    pub(super) succeeded: u64,
    pub(super) succeeded_each_second: f64,
    pub(super) success: f64,
    /// For calls: share of the answered ones that also ended normally.
    pub(super) completed: Option<f64>,
    pub(super) refused: u64,
    pub(super) answered: u64,
    pub(super) timed_out: u64,
    pub(super) retransmitted: u64,
    pub(super) challenged: u64,
    pub(super) other_codes: BTreeMap<u16, u64>,
    /// Time from when an operation was due to the final answer of REGISTER or INVITE.
    pub(super) response: Option<Summary>,
    /// For calls: time to the answer of BYE.
    pub(super) whole: Option<Summary>,
    /// Operations per second that succeeded during the measurement, whenever they began. Excludes those that
    /// succeeded after it, when no more were offered.
    pub(super) within_each_second: f64,
    /// As `response`, for answers that arrived in that time.
    pub(super) response_within: Option<Summary>,
    /// Connections that ended while they were in use.
    pub(super) connections_lost: u64,
    /// With `--keep-alive`: keep-alives, answers to them, and flows without an answer for 10 s.
    pub(super) keep_alives: u64,
    pub(super) keep_alives_answered: u64,
    pub(super) flows_broken: u64,
    pub(super) own_cpu_s: f64,
    /// Resources that the server used, if it was watched.
    pub(super) server: Option<ServerReport>,
    /// Results of the offered multiples.
    pub(super) offered: Vec<Offered>,
    /// Of the offered multiples: the least share of the best rate, and of completed calls; the longest p99 of
    /// the time to the answer.
    pub(super) least_of_best: Option<f64>,
    pub(super) least_completed: Option<f64>,
    pub(super) worst_p99_ms: Option<f64>,
}

/// The result of a multiple of the rate that a closed loop had reached.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Offered {
    pub(super) multiple: f64,
    /// `within_each_second`, divided by the highest rate ever reached, or by the offered rate if that was
    /// lower.
    pub(super) of_best: f64,
    #[serde(flatten)]
    pub(super) report: SipReport,
}

impl SipReport {
    pub(super) fn take(&mut self, outcome: &Outcome, measured: Duration) {
        self.seconds = measured.as_secs_f64();
        self.begun = outcome.begun;
        let beginning = measured.max(outcome.beginning).as_secs_f64().max(1e-9);
        self.rate_reached = self.rate_asked.map(|_| outcome.begun as f64 / beginning);
        self.succeeded = outcome.succeeded;
        self.succeeded_each_second = outcome.succeeded as f64 / self.seconds.max(1e-9);
        self.success = outcome.succeeded as f64 / outcome.begun.max(1) as f64;
        self.completed = (outcome.answered > 0).then(|| outcome.succeeded as f64 / outcome.answered as f64);
        self.refused = outcome.refused;
        self.answered = outcome.answered;
        self.timed_out = outcome.timed_out;
        self.retransmitted = outcome.retransmitted;
        self.challenged = outcome.challenged;
        self.keep_alives = outcome.keep_alives;
        self.keep_alives_answered = outcome.keep_alives_answered;
        self.flows_broken = outcome.flows_broken;
        self.other_codes.clone_from(&outcome.codes);
        self.response = outcome.response.summary();
        self.whole = outcome.whole.summary();
        self.within_each_second = outcome.within as f64 / self.seconds.max(1e-9);
        self.response_within = outcome.response_within.summary();
    }

    /// Sets the name of the scenario, also in the results of multiples.
    pub(super) fn name(&mut self, name: &str) {
        name.clone_into(&mut self.scenario);
        self.offered.iter_mut().for_each(|offered| offered.report.name(name));
    }

    /// Adds the results of multiples.
    pub(super) fn offered(&mut self, reports: Vec<(f64, Self)>) {
        let rates = reports.iter().map(|(_, report)| report.within_each_second);
        let best = rates.fold(self.within_each_second, f64::max).max(1e-9);
        let offered = |(multiple, report): (f64, Self)| Offered {
            multiple,
            of_best: report.within_each_second / best.min(report.rate_asked.unwrap_or(best)),
            report,
        };
        self.offered = reports.into_iter().map(offered).collect();
        let all = |pick: fn(&Offered) -> Option<f64>| self.offered.iter().filter_map(pick);
        self.least_of_best = all(|step| Some(step.of_best)).reduce(f64::min);
        self.least_completed = all(|step| step.report.completed).reduce(f64::min);
        self.worst_p99_ms = all(|step| Some(step.report.response_within.as_ref()?.p99_ms)).reduce(f64::max);
    }

    /// Prints the report as text.
    pub(super) fn print(&self) {
        self.print_one();
        for Offered { multiple, of_best, report } in &self.offered {
            outln!("\noffered load x {multiple}: {:.1} % of the best throughput", of_best * 100.0);
            report.print_one();
        }
    }

    fn print_one(&self) {
        let load = match (self.rate_asked, self.outstanding) {
            (Some(rate), _) => format!("{rate:.0}/s offered"),
            (None, Some(outstanding)) => format!("{outstanding} outstanding"),
            (None, None) => String::new(),
        };
        outln!(
            "{} over {} from {} sources, {load}: {:.0}/s succeeded ({:.2} %), {} of {}",
            self.scenario,
            self.transport,
            self.sources,
            self.succeeded_each_second,
            self.success * 100.0,
            self.succeeded,
            self.begun,
        );
        if self.rate_asked.is_some() {
            outln!("succeeded during the offered time: {:.0}/s", self.within_each_second);
        }
        outln!(
            "refused with 503: {}, timed out: {}, retransmissions: {}, connections lost: {}",
            self.refused,
            self.timed_out,
            self.retransmitted,
            self.connections_lost
        );
        if let Some(completed) = self.completed {
            outln!("answered calls completed: {:.2} %", completed * 100.0);
        }
        if self.challenged > 0 {
            outln!("challenged: {}", self.challenged);
        }
        if self.keep_alives > 0 {
            outln!(
                "keep-alives: {}, answered: {}, broken flows: {}",
                self.keep_alives,
                self.keep_alives_answered,
                self.flows_broken
            );
        }
        for (code, count) in &self.other_codes {
            outln!("answered with {code}: {count}");
        }
        for (name, times) in [("final response", &self.response), ("whole call", &self.whole)] {
            if let Some(times) = times {
                outln!(
                    "{name}, ms: mean {:.3}, p50 {:.3}, p90 {:.3}, p99 {:.3}, p99.9 {:.3}, max {:.3}",
                    times.mean_ms,
                    times.p50_ms,
                    times.p90_ms,
                    times.p99_ms,
                    times.p999_ms,
                    times.max_ms
                );
            }
        }
        if let Some(server) = &self.server {
            outln!(
                "server: {:.2} cores, {:.2} us of CPU time per operation, {:.1} MB at the end, {:.0} bytes per source",
                server.cores,
                server.cpu_us_each,
                server.memory_end as f64 / 1e6,
                server.memory_each_source
            );
        }
    }
}
