//! The messages between the controller and the processes of a measurement: one JSON value per line.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use strandline_measure::Times;

use super::Transport;

/// The role of a process, sent once at its start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Part {
    /// Accepts associations or connections and echoes every message.
    Server(ServerPart),
    /// Sets up, holds and uses associations or connections.
    Client(ClientPart),
}

/// A server process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ServerPart {
    pub(super) transport: Transport,
    /// Address to listen on: for SCTP in UDP that of the UDP socket, for TCP that of the TCP socket.
    pub(super) address: SocketAddr,
    pub(super) raw: bool,
    /// Number of shards for SCTP, each on its own core.
    pub(super) shards: u16,
    /// Seconds between heartbeats of an idle association; `None`: no heartbeats.
    pub(super) heartbeat_s: Option<f64>,
    /// Core to which the process is pinned; `None`: any core.
    pub(super) core: Option<usize>,
}

/// A client process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ClientPart {
    pub(super) transport: Transport,
    /// IP address and TCP port or UDP port (0: raw IP).
    pub(super) server: SocketAddr,
    /// The server's SCTP port.
    pub(super) port: u16,
    /// The client's addresses, each with its own ports like a separate host.
    pub(super) hosts: Vec<IpAddr>,
    pub(super) message_bytes: usize,
    pub(super) heartbeat_s: Option<f64>,
    /// Seconds after which an operation has failed.
    pub(super) timeout_s: f64,
    /// Core to which the process is pinned; `None`: any core.
    pub(super) core: Option<usize>,
}

/// The next action of a process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// Set up sessions, many at a time, until `to` are held. With a rate per second, set them up at this rate
    /// and with a transaction on each.
    Grow { to: u64, rate: Option<f64> },
    /// Set up `count` sessions, one after another, with a transaction on each, and end each before the next.
    SetUp { count: u64 },
    /// Run `count` transactions, one after another, each on a held session chosen at random.
    Transact { count: u64 },
    /// Run a transaction on every held session, many at a time, in a pseudo-random order.
    Sweep,
    /// Report memory and counters.
    Measure,
}

/// The answer of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// The process is ready; a server reports its address.
    Ready { address: SocketAddr, port: u16 },
    /// Operations done so far.
    Progress(u64),
    /// All operations are done.
    Done(Box<Done>),
    /// The result of `Measure`.
    Measured(Measured),
    /// The process can't continue.
    Failed(String),
}

/// The results of completed operations.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) completed: u64,
    pub(super) failed: u64,
    /// The first error.
    pub(super) error: Option<String>,
    pub(super) elapsed_s: f64,
    pub(super) setup: Times,
    pub(super) transaction: Times,
    /// Times of set-up and first transaction together.
    pub(super) total: Times,
    /// Number of sessions held afterwards.
    pub(super) held: u64,
    /// Congestion control of the TCP connections.
    pub(super) tcp_congestion: Option<String>,
}

impl Done {
    /// Adds the results of another process at the same time.
    pub(super) fn merge(&mut self, other: &Self) {
        self.completed += other.completed;
        self.failed += other.failed;
        if self.error.is_none() {
            self.error.clone_from(&other.error);
        }
        self.elapsed_s = self.elapsed_s.max(other.elapsed_s);
        self.setup.merge(&other.setup);
        self.transaction.merge(&other.transaction);
        self.total.merge(&other.total);
        self.held += other.held;
        if self.tcp_congestion.is_none() {
            self.tcp_congestion.clone_from(&other.tcp_congestion);
        }
    }

    /// Returns the operations per second.
    pub(super) fn rate(&self) -> f64 {
        self.completed as f64 / self.elapsed_s.max(1e-9)
    }
}

/// The measurements of a process. Counters are those of all its stacks together.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Measured {
    /// Private memory in bytes.
    pub(super) rss_anon: u64,
    pub(super) cpu_user_s: f64,
    pub(super) cpu_system_s: f64,
    /// Existing SCTP associations.
    pub(super) associations: u64,
    /// Memory of an association as reported by the stack, averaged over several: name and bytes of each item.
    pub(super) items: Vec<(String, f64)>,
    pub(super) packets_sent: u64,
    pub(super) packets_received: u64,
    /// Associations that ended because the peer did not answer.
    pub(super) timed_out: u64,
    /// Stateless answers that were dropped.
    pub(super) replies_dropped: u64,
    /// INITs that exceeded the limit and were dropped unread.
    pub(super) inits_shed: u64,
}

impl Measured {
    /// Adds the measurements of another process.
    pub(super) fn add(&mut self, other: &Self) {
        self.rss_anon += other.rss_anon;
        self.cpu_user_s += other.cpu_user_s;
        self.cpu_system_s += other.cpu_system_s;
        self.associations += other.associations;
        self.packets_sent += other.packets_sent;
        self.packets_received += other.packets_received;
        self.timed_out += other.timed_out;
        self.replies_dropped += other.replies_dropped;
        self.inits_shed += other.inits_shed;
        if self.items.is_empty() {
            self.items.clone_from(&other.items);
        }
    }

    pub(super) fn cpu_s(&self) -> f64 {
        self.cpu_user_s + self.cpu_system_s
    }
}
