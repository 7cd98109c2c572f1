//! What is counted during a test.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use strandline_measure::{Times, now};

use super::failure::{Class, Failure};
use super::samples::Samples;

/// The end of a request, for `--completions`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Completion {
    pub(super) session: Option<u64>,
    pub(super) request: u64,
    pub(super) url: String,
    pub(super) due_ms: f64,
    pub(super) ms: f64,
    pub(super) status: Option<u16>,
    pub(super) bytes: u64,
    pub(super) error: Option<&'static str>,
}

/// A reply that was received completely.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) header_bytes: u64,
    pub(super) content_bytes: u64,
    /// From the request until the head.
    pub(super) response: Duration,
    /// From the head until the end of the body.
    pub(super) transfer: Duration,
}

/// A request that ended.
#[derive(Debug)]
pub(super) struct Ended<'a> {
    pub(super) session: Option<u64>,
    pub(super) request: u64,
    pub(super) url: &'a str,
    /// When it was due.
    pub(super) due: Instant,
    /// Bytes of the body that were received.
    pub(super) bytes: u64,
    pub(super) result: &'a Result<Reply, Failure>,
}

/// The counters of connections.
#[derive(Debug, Clone, Default)]
pub(super) struct Connections {
    pub(super) attempted: u64,
    pub(super) established: u64,
    open: u64,
    pub(super) concurrent_max: u64,
    pub(super) connect: Times,
    /// Of connections with a reply.
    pub(super) lifetime: Times,
}

/// The counters of requests and replies.
#[derive(Debug, Clone, Default)]
pub(super) struct Requests {
    pub(super) sent: u64,
    pub(super) bytes_sent: u64,
    /// By class of the status: 1xx to 5xx.
    pub(super) status: [u64; 5],
    pub(super) replies: u64,
    /// Requests that ended without a reply.
    pub(super) failed: u64,
    pub(super) header_bytes: u64,
    pub(super) content_bytes: u64,
    pub(super) partial_bytes: u64,
    pub(super) rate: Samples,
    pub(super) latency: Times,
    pub(super) slowest: Duration,
    pub(super) response: Times,
    pub(super) transfer: Times,
    /// From a request until the end of the body.
    pub(super) request: Times,
}

/// The counters of sessions.
#[derive(Debug, Clone, Default)]
pub(super) struct Sessions {
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) rate: Samples,
    pub(super) lifetime: Times,
    pub(super) failtime: Times,
    /// Number of sessions that ended after as many replies.
    pub(super) lengths: Vec<u64>,
}

/// Everything that was counted.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    pub(super) begin: Instant,
    /// When the last request or session ended.
    pub(super) end: Instant,
    pub(super) connections: Connections,
    pub(super) requests: Requests,
    pub(super) sessions: Sessions,
    /// By class, in the order of [`Class::ALL`].
    pub(super) errors: [u64; Class::ALL.len()],
    pub(super) completions: Option<Vec<Completion>>,
}

impl Counted {
    /// Returns the length of the test so far.
    pub(super) fn length(&self) -> Duration {
        self.end.saturating_duration_since(self.begin)
    }

    fn fail(&mut self, failure: &Failure) {
        if let Some(count) = self.errors.get_mut(failure.class as usize) {
            if failure.class == Class::Other && *count == 0 {
                tracing::warn!(cause = failure.cause, "a request or connection failed, class other");
            }
            *count += 1;
        }
    }
}

/// Counts what happens in a test.
#[derive(Debug)]
pub(super) struct Stats {
    counted: Mutex<Counted>,
}

impl Stats {
    pub(super) fn new(begin: Instant, has_completions: bool) -> Self {
        let counted = Counted {
            begin,
            end: begin,
            connections: Connections::default(),
            requests: Requests::default(),
            sessions: Sessions::default(),
            errors: [0; Class::ALL.len()],
            completions: has_completions.then(Vec::new),
        };
        Self { counted: Mutex::new(counted) }
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a copy of what was counted.
    pub(super) fn counted(&self) -> Counted {
        self.lock().clone()
    }

    /// Returns the numbers of replies and errors so far.
    pub(super) fn progress(&self) -> (u64, u64) {
        let counted = self.lock();
        (counted.requests.replies, counted.errors.iter().sum())
    }

    /// Counts an attempt to set up a connection.
    pub(super) fn on_connecting(&self) {
        let connections = &mut self.lock().connections;
        connections.attempted += 1;
        connections.open += 1;
        connections.concurrent_max = connections.concurrent_max.max(connections.open);
    }

    /// Counts a connection that was established, `begun` being the time of the attempt.
    pub(super) fn on_connected(&self, begun: Instant) {
        let connections = &mut self.lock().connections;
        connections.established += 1;
        connections.connect.record(now().saturating_duration_since(begun));
    }

    /// Counts a connection that couldn't be set up.
    pub(super) fn on_not_connected(&self, failure: &Failure) {
        self.lock().fail(failure);
    }

    /// Counts the end of a connection or of an attempt.
    pub(super) fn on_closed(&self, begun: Instant, replies: u64) {
        let connections = &mut self.lock().connections;
        connections.open -= 1;
        if replies > 0 {
            connections.lifetime.record(now().saturating_duration_since(begun));
        }
    }

    /// Counts a request that is handed to a connection.
    pub(super) fn on_request(&self, bytes: u64) {
        let requests = &mut self.lock().requests;
        requests.sent += 1;
        requests.bytes_sent += bytes;
    }

    /// Counts the end of a request.
    pub(super) fn on_ended(&self, ended: &Ended<'_>) {
        let at = now();
        let mut counted = self.lock();
        let counted = &mut *counted;
        counted.end = counted.end.max(at);
        let latency = at.saturating_duration_since(ended.due);
        let requests = &mut counted.requests;
        match ended.result {
            Ok(reply) => {
                requests.replies += 1;
                let class = usize::from(reply.status / 100).wrapping_sub(1);
                if let Some(count) = requests.status.get_mut(class) {
                    *count += 1;
                }
                requests.header_bytes += reply.header_bytes;
                requests.content_bytes += reply.content_bytes;
                requests.rate.count(at.saturating_duration_since(counted.begin));
                requests.latency.record(latency);
                requests.slowest = requests.slowest.max(latency);
                requests.response.record(reply.response);
                requests.transfer.record(reply.transfer);
                requests.request.record(reply.response + reply.transfer);
            }
            Err(failure) => {
                requests.failed += 1;
                requests.partial_bytes += ended.bytes;
                if !failure.is_counted {
                    counted.fail(failure);
                }
            }
        }
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        if let Some(completions) = &mut counted.completions {
            completions.push(Completion {
                session: ended.session,
                request: ended.request,
                url: ended.url.to_owned(),
                due_ms: millis(ended.due.saturating_duration_since(counted.begin)),
                ms: millis(latency),
                status: ended.result.as_ref().ok().map(|reply| reply.status),
                bytes: ended.bytes,
                error: ended.result.as_ref().err().map(|failure| failure.class.name()),
            });
        }
    }

    /// Counts the end of a session that was due at `due` and has had so many replies.
    pub(super) fn on_session(&self, due: Instant, replies: u64, has_failed: bool) {
        let at = now();
        let mut counted = self.lock();
        counted.end = counted.end.max(at);
        let since_begin = at.saturating_duration_since(counted.begin);
        let sessions = &mut counted.sessions;
        let length = replies as usize;
        if sessions.lengths.len() <= length {
            sessions.lengths.resize(length + 1, 0);
        }
        if let Some(count) = sessions.lengths.get_mut(length) {
            *count += 1;
        }
        let time = at.saturating_duration_since(due);
        if has_failed {
            sessions.failed += 1;
            sessions.failtime.record(time);
        } else {
            sessions.completed += 1;
            sessions.lifetime.record(time);
            sessions.rate.count(since_begin);
        }
    }
}
