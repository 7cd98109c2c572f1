//! Counts and durations of the parts of the work.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::server::clock::Clock;

/// The parts of handling a request, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// A connection is accepted.
    Accept,
    /// Bytes, a message, or the end of a connection are read from the socket.
    Read,
    /// The end of the message is found.
    Frame,
    /// The urgency is determined by the first line.
    Sort,
    /// The headers are indexed, and those needed for routing are parsed.
    Parse,
    /// The request is carried out, including parsing and the response.
    Operate,
    /// The response is written to the socket.
    Write,
    /// The connection is closed.
    Close,
}

const PARTS: [(Part, &str); 8] = [
    (Part::Accept, "accept"),
    (Part::Read, "read"),
    (Part::Frame, "frame"),
    (Part::Sort, "sort"),
    (Part::Parse, "parse"),
    (Part::Operate, "operate"),
    (Part::Write, "write"),
    (Part::Close, "close"),
];

/// Counts and durations for all requests.
#[derive(Debug)]
pub(super) struct Meter {
    clock: Clock,
    calls: [u64; PARTS.len()],
    now: [Duration; PARTS.len()],
    requests: Vec<[Duration; PARTS.len()]>,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self {
            clock: Clock::start(),
            calls: Default::default(),
            now: Default::default(),
            requests: Vec::new(),
        }
    }

    /// The time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Performs a part and records it.
    pub(super) fn time<T>(&mut self, part: Part, work: impl FnOnce() -> T) -> T {
        let begin = self.clock.elapsed();
        let done = work();
        self.count(part, self.clock.elapsed().saturating_sub(begin));
        done
    }

    /// Records the duration of a part.
    pub(super) fn count(&mut self, part: Part, took: Duration) {
        let place = part as usize;
        if let (Some(calls), Some(now)) = (self.calls.get_mut(place), self.now.get_mut(place)) {
            *calls += 1;
            *now += took;
        }
    }

    /// Ends a request.
    pub(super) fn end_request(&mut self) {
        self.requests.push(std::mem::take(&mut self.now));
    }

    /// For each request, how often each part was performed, and its median duration in microseconds.
    pub(super) fn report(&self) -> (Map<String, Value>, Map<String, Value>) {
        let (mut calls, mut times) = (Map::new(), Map::new());
        let requests = self.requests.len().max(1);
        for (part, name) in PARTS {
            let place = part as usize;
            let count = self.calls.get(place).copied().unwrap_or_default();
            calls.insert(name.to_owned(), json!(count as f64 / requests as f64));
            let mut each: Vec<Duration> =
                self.requests.iter().filter_map(|request| request.get(place).copied()).collect();
            each.sort_unstable();
            let median = each.get(each.len() / 2).copied().unwrap_or_default();
            times.insert(name.to_owned(), json!(median.as_nanos() as f64 / 1e3));
        }
        (calls, times)
    }
}

#[cfg(test)]
mod tests;
