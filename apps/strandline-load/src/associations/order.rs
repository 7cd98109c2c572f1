//! What the processes of a measurement are told and what they tell: one JSON value a line.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::Transport;
use crate::histogram::Times;

/// What a process is, told once at its start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Part {
    /// Accepts whatever comes and sends every message back.
    Server(ServerPart),
    /// Sets up, holds and uses.
    Client(ClientPart),
}

/// A server process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ServerPart {
    pub(super) transport: Transport,
    /// Where it listens: for SCTP in UDP this is the UDP socket's address, for TCP the TCP address.
    pub(super) address: SocketAddr,
    pub(super) raw: bool,
    /// Of SCTP, each on a core of its own.
    pub(super) shards: u16,
    /// Seconds between heartbeats of an idle association; none are sent without.
    pub(super) heartbeat_s: Option<f64>,
    /// The core that it keeps to; any without.
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
    /// The client's addresses: each stands for a host with ports of its own.
    pub(super) hosts: Vec<IpAddr>,
    pub(super) message_bytes: usize,
    pub(super) heartbeat_s: Option<f64>,
    /// An operation that takes longer has failed.
    pub(super) timeout_s: f64,
    /// The core that it keeps to; any without.
    pub(super) core: Option<usize>,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// Set up more, many at a time, until so many are held; if a rate a second is given, at this rate and with a
    /// transaction on each.
    Grow { to: u64, rate: Option<f64> },
    /// Set up so many, one after another, with a transaction on each, and end each before the next.
    SetUp { count: u64 },
    /// So many transactions, one after another, each on one of those held, chosen at random.
    Transact { count: u64 },
    /// A transaction on each that is held, many at a time, in an order that is as good as random.
    Sweep,
    /// Look at memory and counters.
    Measure,
}

/// What a process answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// It is there; a server says where.
    Ready { address: SocketAddr, port: u16 },
    /// Operations done so far.
    Progress(u64),
    /// All were done.
    Done(Box<Done>),
    /// What `Measure` found.
    Measured(Measured),
    /// It can't go on.
    Failed(String),
}

/// Operations that were done.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) completed: u64,
    pub(super) failed: u64,
    /// The first thing that went wrong.
    pub(super) error: Option<String>,
    pub(super) elapsed_s: f64,
    pub(super) setup: Times,
    pub(super) transaction: Times,
    /// Set-up and first transaction together.
    pub(super) total: Times,
    /// Held afterwards.
    pub(super) held: u64,
    /// Congestion control of the TCP connections.
    pub(super) tcp_congestion: Option<String>,
}

impl Done {
    /// Adds what another process did at the same time.
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

    /// Operations a second.
    pub(super) fn rate(&self) -> f64 {
        self.completed as f64 / self.elapsed_s.max(1e-9)
    }
}

/// A process, looked at. Counters are those of all its stacks together.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Measured {
    /// Memory of its own, bytes.
    pub(super) rss_anon: u64,
    pub(super) cpu_user_s: f64,
    pub(super) cpu_system_s: f64,
    /// SCTP associations that exist.
    pub(super) associations: u64,
    /// What the stack says of the memory of an association, on average over some: name and bytes.
    pub(super) items: Vec<(String, f64)>,
    pub(super) packets_sent: u64,
    pub(super) packets_received: u64,
    /// Associations that ended because the peer did not answer.
    pub(super) timed_out: u64,
    /// Stateless answers that were dropped.
    pub(super) replies_dropped: u64,
    /// INITs that were too many and dropped unread.
    pub(super) inits_shed: u64,
}

impl Measured {
    /// Adds another process.
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
