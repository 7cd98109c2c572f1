//! Current activity, second by second, for the live page and `strandline sip top`.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use strandline_ops::metrics::Histogram as Buckets;

/// Number of seconds of history.
const SHOWN: usize = 120;
/// The longest duration recorded, in microseconds.
const MICROS_MAX: u64 = 60_000_000;

/// The activity of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Live {
    /// The configured domains.
    pub(super) domains: Vec<String>,
    pub(super) uptime_secs: u64,
    /// Number of users with bindings.
    pub(super) users: usize,
    /// Number of bindings (registered phones).
    #[serde(default)]
    pub(super) bindings: usize,
    /// Number of TCP connections, including TLS and WebSocket.
    pub(super) connections: usize,
    /// Number of SCTP associations.
    pub(super) associations: usize,
    pub(super) transactions: usize,
    /// Number of messages that wait to be handled.
    pub(super) waiting: usize,
    /// True during an overload.
    pub(super) overloaded: bool,
    /// True while draining: requests that begin something are rejected, by request of an administrator or
    /// because the server is ending.
    pub(super) draining: bool,
    /// True if the store can't be written or followed, so that registrations are rejected.
    #[serde(default)]
    pub(super) store_failing: bool,
    /// The share of their traffic that neighbours may send (RFC 7339).
    pub(super) allowed_share: f64,
    /// The share of UDP requests that the kernel passes.
    pub(super) let_through_share: f64,
    pub(super) totals: Totals,
    /// The history, with the last second at the end.
    pub(super) seconds: Vec<Second>,
    /// The number of processes that should serve.
    #[serde(default)]
    pub(super) processes: u16,
    /// Number of times that one of several processes has died and was restarted.
    #[serde(default)]
    pub(super) restarts: u64,
    /// With several processes, the figures of each process that responds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) workers: Vec<Share>,
    /// Other nodes that share the store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) nodes: Vec<OtherNode>,
}

/// Another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OtherNode {
    pub(super) name: String,
    /// The node's address for other nodes, such as `tcp:192.0.2.2:5060`.
    pub(super) address: Option<String>,
    pub(super) is_alive: bool,
}

impl Live {
    /// The number of processes that should serve and don't respond.
    pub(super) fn missing(&self) -> usize {
        let processes = if self.processes > 1 { self.processes.into() } else { 0 };
        usize::saturating_sub(processes, self.workers.len())
    }

    /// The names of other nodes that are not alive.
    pub(super) fn gone(&self) -> Vec<&str> {
        self.nodes.iter().filter(|node| !node.is_alive).map(|node| node.name.as_str()).collect()
    }
}

/// The figures of one of several processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Share {
    /// The number of the process, from 1.
    pub(super) worker: u16,
    pub(super) uptime_secs: u64,
    pub(super) connections: usize,
    pub(super) associations: usize,
    pub(super) transactions: usize,
    pub(super) waiting: usize,
    pub(super) overloaded: bool,
    pub(super) totals: Totals,
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Totals {
    /// REGISTER requests answered with 200.
    pub(super) registered: u64,
    /// Answered calls.
    pub(super) calls: u64,
    /// Requests of all kinds that were handled.
    pub(super) requests: u64,
    /// Requests that were rejected for lack of time, with or without a response.
    pub(super) refused: u64,
}

impl Totals {
    pub(super) fn add(&mut self, more: &Self) {
        self.registered += more.registered;
        self.calls += more.calls;
        self.requests += more.requests;
        self.refused += more.refused;
    }
}

/// The counts of processes that have died; their replacements start at 0.
#[derive(Debug, Default)]
pub(super) struct Ended {
    last: HashMap<u8, Totals>,
    pub(super) totals: Totals,
}

impl Ended {
    /// Records the counts of a process.
    pub(super) fn note(&mut self, worker: u8, so_far: Totals) {
        self.last.insert(worker, so_far);
    }

    /// Records that a process has died.
    pub(super) fn died(&mut self, worker: u8) {
        if let Some(last) = self.last.remove(&worker) {
            self.totals.add(&last);
        }
    }
}

/// The activity of one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Second {
    /// Registrations per second.
    pub(super) registered: f64,
    pub(super) calls: f64,
    pub(super) requests: f64,
    pub(super) refused: f64,
    /// The median time from the arrival of a request that begins something until it was answered or
    /// forwarded; `None` if there was none.
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    /// The 99th percentile of the time for which responses waited for the store.
    pub(super) commit_p99_ms: Option<f64>,
}

/// The durations recorded within a second.
#[derive(Debug)]
struct Times(Option<Histogram<u64>>);

impl Times {
    fn new() -> Self {
        // The bounds are constants that are valid for the histogram.
        Self(Histogram::new_with_bounds(1, MICROS_MAX, 2).ok())
    }

    fn record(&mut self, time: Duration) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(u64::try_from(time.as_micros()).unwrap_or(MICROS_MAX).max(1));
        }
    }

    fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        let recorded = self.0.as_ref().filter(|histogram| !histogram.is_empty())?;
        Some(recorded.value_at_quantile(quantile) as f64 / 1000.0)
    }

    /// Pairs of a duration in microseconds and its count.
    fn counts(&self) -> Vec<(u64, u64)> {
        let recorded = self.0.iter().flat_map(|histogram| histogram.iter_recorded());
        recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
    }

    fn add(&mut self, counts: &[(u64, u64)]) {
        if let Some(histogram) = &mut self.0 {
            counts.iter().for_each(|(micros, count)| histogram.saturating_record_n(*micros, *count));
        }
    }

    fn clear(&mut self) {
        if let Some(histogram) = &mut self.0 {
            histogram.reset();
        }
    }
}

/// The activity of one of several processes since the last query, in a form that can be merged with others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TakenSecond {
    /// The length of the interval, in seconds.
    secs: f64,
    totals: Totals,
    /// The counters since the start of the process.
    #[serde(default)]
    pub(super) so_far: Totals,
    handled: Vec<(u64, u64)>,
    commits: Vec<(u64, u64)>,
}

/// The merged history of all processes.
#[derive(Debug, Default)]
pub(super) struct Seconds(VecDeque<Second>);

impl Seconds {
    /// Adds a second.
    pub(super) fn add<'a>(&mut self, taken: impl Iterator<Item = &'a TakenSecond>) {
        let (mut handled, mut commits) = (Times::new(), Times::new());
        let mut second = Second::default();
        for one in taken {
            handled.add(&one.handled);
            commits.add(&one.commits);
            let rate = |count: u64| count as f64 / one.secs.max(0.001);
            second.registered += rate(one.totals.registered);
            second.calls += rate(one.totals.calls);
            second.requests += rate(one.totals.requests);
            second.refused += rate(one.totals.refused);
        }
        (second.p50_ms, second.p99_ms) = (handled.quantile_ms(0.5), handled.quantile_ms(0.99));
        second.commit_p99_ms = commits.quantile_ms(0.99);
        if self.0.len() == SHOWN {
            self.0.pop_front();
        }
        self.0.push_back(second);
    }

    /// The history, with the last second at the end.
    pub(super) fn all(&self) -> Vec<Second> {
        self.0.iter().copied().collect()
    }
}

/// Records the activity.
#[derive(Debug)]
pub(super) struct Watch {
    handled: Times,
    commits: Times,
    last: (Duration, Totals),
    /// With several processes, the activity since the last query.
    taken: Option<Box<Taken>>,
    seconds: VecDeque<Second>,
    /// The times at which the pending batches were submitted to the store.
    handed_over: VecDeque<Duration>,
    /// Handling times since the start.
    pub(super) handled_in: Buckets,
    pub(super) committed_in: Buckets,
}

/// The activity since the last query.
#[derive(Debug)]
struct Taken {
    handled: Times,
    commits: Times,
    at: Duration,
    totals: Totals,
}

impl Taken {
    fn new(at: Duration, totals: Totals) -> Self {
        Self { handled: Times::new(), commits: Times::new(), at, totals }
    }
}

impl Watch {
    pub(super) fn new() -> Self {
        Self {
            handled: Times::new(),
            commits: Times::new(),
            last: (Duration::ZERO, Totals::default()),
            taken: None,
            seconds: VecDeque::with_capacity(SHOWN),
            handed_over: VecDeque::new(),
            handled_in: Buckets::default(),
            committed_in: Buckets::default(),
        }
    }

    /// Records a handled request that begins something, and the time since its arrival.
    pub(super) fn on_handled(&mut self, time: Duration) {
        self.handled.record(time);
        self.handled_in.record(time);
        if let Some(taken) = &mut self.taken {
            taken.handled.record(time);
        }
    }

    /// Records a batch of responses submitted to the store.
    pub(super) fn on_handed_over(&mut self, now: Duration) {
        self.handed_over.push_back(now);
    }

    /// Records that the oldest `batches` batches have been settled.
    pub(super) fn on_settled(&mut self, now: Duration, batches: usize) {
        for _ in 0..batches {
            let Some(since) = self.handed_over.pop_front() else { return };
            let time = now.saturating_sub(since);
            self.commits.record(time);
            self.committed_in.record(time);
            if let Some(taken) = &mut self.taken {
                taken.commits.record(time);
            }
        }
    }

    /// Takes the activity since the last call.
    pub(super) fn take_second(&mut self, now: Duration, totals: Totals) -> TakenSecond {
        let taken = self.taken.get_or_insert_with(|| Box::new(Taken::new(now, totals)));
        let since = |now: u64, last: u64| now.saturating_sub(last);
        let second = TakenSecond {
            secs: now.saturating_sub(taken.at).as_secs_f64(),
            totals: Totals {
                registered: since(totals.registered, taken.totals.registered),
                calls: since(totals.calls, taken.totals.calls),
                requests: since(totals.requests, taken.totals.requests),
                refused: since(totals.refused, taken.totals.refused),
            },
            so_far: totals,
            handled: taken.handled.counts(),
            commits: taken.commits.counts(),
        };
        taken.handled.clear();
        taken.commits.clear();
        (taken.at, taken.totals) = (now, totals);
        second
    }

    /// The history, with the last second at the end.
    pub(super) fn seconds(&self) -> Vec<Second> {
        self.seconds.iter().copied().collect()
    }

    /// Completes a second. Call it every second.
    pub(super) fn look(&mut self, now: Duration, totals: Totals) {
        let (at, last) = self.last;
        let secs = now.saturating_sub(at).as_secs_f64().max(0.001);
        let rate = |now: u64, last: u64| now.saturating_sub(last) as f64 / secs;
        if self.seconds.len() == SHOWN {
            self.seconds.pop_front();
        }
        self.seconds.push_back(Second {
            registered: rate(totals.registered, last.registered),
            calls: rate(totals.calls, last.calls),
            requests: rate(totals.requests, last.requests),
            refused: rate(totals.refused, last.refused),
            p50_ms: self.handled.quantile_ms(0.5),
            p99_ms: self.handled.quantile_ms(0.99),
            commit_p99_ms: self.commits.quantile_ms(0.99),
        });
        self.handled.clear();
        self.commits.clear();
        self.last = (now, totals);
    }
}

#[cfg(test)]
mod tests;
