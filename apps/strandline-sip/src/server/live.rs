//! What goes on now: for the live page and for `strandline sip top`, second by second.

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Seconds that are shown.
const SHOWN: usize = 120;
/// Longest time that is told apart, microseconds.
const MICROS_MAX: u64 = 60_000_000;

/// What the server says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Live {
    /// Its domains, as far as they are configured.
    pub(super) domains: Vec<String>,
    pub(super) uptime_secs: u64,
    /// Users with bindings: registered phones.
    pub(super) users: usize,
    /// Over TCP, with and without TLS and WebSocket.
    pub(super) connections: usize,
    /// Over SCTP.
    pub(super) associations: usize,
    pub(super) transactions: usize,
    /// Messages that wait to be handled.
    pub(super) waiting: usize,
    /// There is more than can be done.
    pub(super) overloaded: bool,
    /// It is about to end.
    pub(super) draining: bool,
    /// What neighbours are told (RFC 7339).
    pub(super) allowed_share: f64,
    /// Of requests over UDP, by the kernel.
    pub(super) let_through_share: f64,
    pub(super) totals: Totals,
    /// One for each second, the last one last.
    pub(super) seconds: Vec<Second>,
}

/// Counted since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Totals {
    /// REGISTERs answered with 200.
    pub(super) registered: u64,
    /// Calls that were answered.
    pub(super) calls: u64,
    /// Requests of all kinds that were handled.
    pub(super) requests: u64,
    /// Requests that there was no time for, told or not.
    pub(super) refused: u64,
}

/// What happened within a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Second {
    /// A second.
    pub(super) registered: f64,
    pub(super) calls: f64,
    pub(super) requests: f64,
    pub(super) refused: f64,
    /// From when a request that begins something came until it was answered or sent on; none without any.
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    /// How long answers waited for the store.
    pub(super) commit_p99_ms: Option<f64>,
}

/// Times of a second.
#[derive(Debug)]
struct Times(Option<Histogram<u64>>);

impl Times {
    fn new() -> Self {
        // The bounds are constants that the histogram takes.
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

    fn clear(&mut self) {
        if let Some(histogram) = &mut self.0 {
            histogram.reset();
        }
    }
}

/// Watches what goes on.
#[derive(Debug)]
pub(super) struct Watch {
    handled: Times,
    commits: Times,
    last: (Duration, Totals),
    seconds: VecDeque<Second>,
    /// When the batches were handed over that the store still has.
    handed_over: VecDeque<Duration>,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self {
            handled: Times::new(),
            commits: Times::new(),
            last: (Duration::ZERO, Totals::default()),
            seconds: VecDeque::with_capacity(SHOWN),
            handed_over: VecDeque::new(),
        }
    }

    /// A request that begins something was handled, so long after it came.
    pub(super) fn on_handled(&mut self, time: Duration) {
        self.handled.record(time);
    }

    /// Answers wait for the store.
    pub(super) fn on_handed_over(&mut self, now: Duration) {
        self.handed_over.push_back(now);
    }

    /// So many batches wait no more: those that came first.
    pub(super) fn on_settled(&mut self, now: Duration, batches: usize) {
        for _ in 0..batches {
            let Some(since) = self.handed_over.pop_front() else { return };
            self.commits.record(now.saturating_sub(since));
        }
    }

    /// What happened in the last seconds, the last one last.
    pub(super) fn seconds(&self) -> Vec<Second> {
        self.seconds.iter().copied().collect()
    }

    /// To be called every second.
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
