//! The report, as JSON and as text in httperf's form.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};
use strandline_measure::{CpuTime, Distribution};

use super::args::{Args, Load, Plan, Transport};
use super::failure::Class;
use super::samples::{Rate, per_second};
use super::stats::{Completion, Counted};

/// Bytes of a KB, as httperf counts.
const KBYTE: f64 = 1024.0;

/// The report of a test. docs/load-http.md describes the fields.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) offered: Offered,
    pub(super) connections: Connections,
    pub(super) requests: u64,
    pub(super) replies: u64,
    pub(super) failed_requests: u64,
    pub(super) errors_total: u64,
    pub(super) errors: Errors,
    pub(super) status: BTreeMap<&'static str, u64>,
    pub(super) seconds: f64,
    pub(super) request_rate_per_s: f64,
    pub(super) reply_rate: Rate,
    pub(super) net_io_kbytes_per_s: f64,
    #[serde(flatten)]
    pub(super) bytes: Bytes,
    #[serde(flatten)]
    pub(super) times: Times,
    pub(super) sessions: Option<Sessions>,
    #[serde(flatten)]
    pub(super) cpu: Cpu,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) completions: Option<Vec<Completion>>,
}

/// What was asked for.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Offered {
    pub(super) urls: Vec<String>,
    pub(super) transport: Transport,
    pub(super) http: &'static str,
    pub(super) kind: &'static str,
    pub(super) streams: Option<u16>,
    pub(super) burst: Option<Vec<u32>>,
    pub(super) rate_asked: Option<f64>,
    pub(super) concurrency: Option<u32>,
    pub(super) planned: Option<u64>,
}

/// Numbers of connections or associations.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Connections {
    pub(super) attempted: u64,
    pub(super) established: u64,
    pub(super) concurrent_max: u64,
    pub(super) rate_per_s: f64,
    /// Replies divided by the connections with at least one.
    pub(super) replies_each: Option<f64>,
}

/// Numbers of errors, in the order of [`Class::ALL`].
#[derive(Debug, Clone)]
pub(super) struct Errors(pub(super) [u64; Class::ALL.len()]);

impl Serialize for Errors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Class::ALL.iter().map(|class| class.name()).zip(self.0))
    }
}

/// Bytes of requests and complete replies.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Bytes {
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) header_bytes_received: u64,
    pub(super) content_bytes_received: u64,
    pub(super) partial_bytes_received: u64,
}

/// Distributions of times.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Times {
    pub(super) latency_ms: Option<Distribution>,
    pub(super) slowest_ms: Option<f64>,
    pub(super) response_ms: Option<Distribution>,
    pub(super) transfer_ms: Option<Distribution>,
    pub(super) request_ms: Option<Distribution>,
    pub(super) connect_ms: Option<Distribution>,
    pub(super) connection_ms: Option<Distribution>,
}

/// Figures of sessions.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sessions {
    pub(super) planned: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) rate: Rate,
    pub(super) connections_each: Option<f64>,
    pub(super) lifetime_ms: Option<Distribution>,
    pub(super) failtime_ms: Option<Distribution>,
    pub(super) lengths: Vec<u64>,
}

/// Processor time of this process.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Cpu {
    pub(super) cpu_seconds: f64,
    pub(super) cpu_user_seconds: f64,
    pub(super) cpu_system_seconds: f64,
}

impl Report {
    pub(super) fn new(args: &Args, plan: &Plan, counted: Counted, cpu: CpuTime) -> Self {
        let length = counted.length();
        let (requests, connections) = (&counted.requests, &counted.connections);
        let received = requests.header_bytes + requests.content_bytes;
        let statuses = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(requests.status);
        let with_reply = connections.lifetime.count();
        Self {
            offered: Offered::new(args, plan),
            connections: Connections {
                attempted: connections.attempted,
                established: connections.established,
                concurrent_max: connections.concurrent_max,
                rate_per_s: per_second(connections.attempted as f64, length),
                replies_each: (with_reply > 0).then(|| requests.replies as f64 / with_reply as f64),
            },
            requests: requests.sent,
            replies: requests.replies,
            failed_requests: requests.failed,
            errors_total: counted.errors.iter().sum(),
            errors: Errors(counted.errors),
            status: statuses.collect(),
            seconds: length.as_secs_f64(),
            request_rate_per_s: per_second(requests.sent as f64, length),
            reply_rate: requests.rate.rate(length),
            net_io_kbytes_per_s: per_second((requests.bytes_sent + received) as f64 / KBYTE, length),
            bytes: Bytes {
                bytes_sent: requests.bytes_sent,
                bytes_received: received,
                header_bytes_received: requests.header_bytes,
                content_bytes_received: requests.content_bytes,
                partial_bytes_received: requests.partial_bytes,
            },
            times: Times {
                latency_ms: requests.latency.distribution(),
                slowest_ms: (requests.replies > 0).then(|| millis(requests.slowest)),
                response_ms: requests.response.distribution(),
                transfer_ms: requests.transfer.distribution(),
                request_ms: requests.request.distribution(),
                connect_ms: connections.connect.distribution(),
                connection_ms: connections.lifetime.distribution(),
            },
            sessions: Sessions::new(plan, &counted, length),
            cpu: Cpu {
                cpu_seconds: (cpu.user + cpu.system).as_secs_f64(),
                cpu_user_seconds: cpu.user.as_secs_f64(),
                cpu_system_seconds: cpu.system.as_secs_f64(),
            },
            completions: counted.completions,
        }
    }

    /// Returns the exit code: 0 if each request got a reply below 400, 1 if none did, 3 otherwise.
    pub(super) fn exit_code(&self) -> u8 {
        let good = self.replies - self.count("4xx") - self.count("5xx");
        let is_complete = self.offered.planned.is_none_or(|planned| self.replies == planned);
        match good {
            0 => 1,
            _ if self.errors_total == 0 && good == self.replies && is_complete => 0,
            _ => 3,
        }
    }

    pub(super) fn count(&self, status: &str) -> u64 {
        self.status.get(status).copied().unwrap_or(0)
    }
}

impl Offered {
    fn new(args: &Args, plan: &Plan) -> Self {
        let is_shared = plan.transport == Transport::Sctp || args.http2;
        let (kind, burst) = match &plan.load {
            Load::Sessions { bursts, .. } => ("sessions", Some(bursts.clone())),
            Load::Closed { .. } => ("closed", None),
            Load::Open { .. } => ("open", None),
        };
        Self {
            urls: plan.urls.iter().map(ToString::to_string).collect(),
            transport: plan.transport,
            http: if args.http2 { "2" } else { "1.1" },
            kind,
            streams: is_shared.then_some(plan.streams),
            burst,
            rate_asked: args.rate,
            concurrency: args.concurrency,
            planned: plan.load.planned(),
        }
    }
}

impl Sessions {
    fn new(plan: &Plan, counted: &Counted, length: Duration) -> Option<Self> {
        let Load::Sessions { count, .. } = &plan.load else { return None };
        let sessions = &counted.sessions;
        let ended = sessions.completed + sessions.failed;
        Some(Self {
            planned: *count,
            completed: sessions.completed,
            failed: sessions.failed,
            rate: sessions.rate.rate(length),
            connections_each: (ended > 0).then(|| counted.connections.attempted as f64 / ended as f64),
            lifetime_ms: sessions.lifetime.distribution(),
            failtime_ms: sessions.failtime.distribution(),
            lengths: sessions.lengths.clone(),
        })
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
