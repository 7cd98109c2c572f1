//! The messages between the controller and the processes: one JSON value per line.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use strandline_measure::Times;

/// The configuration of a process, sent once at its start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Part {
    /// The server's address with its TCP or SCTP port.
    pub(super) server: SocketAddr,
    /// The UDP port that carries SCTP; `None` for TCP.
    pub(super) carrier: Option<u16>,
    /// Addresses of the phones.
    pub(super) hosts: Vec<IpAddr>,
    /// Number of the first user.
    pub(super) first: u32,
    /// Number of users, to which the phones belong in turn.
    pub(super) users: u32,
    /// Number that distinguishes this run's Call-IDs from those of others.
    pub(super) run: u64,
    /// Core to which the process is pinned; `None`: any core.
    pub(super) core: Option<usize>,
}

/// The next action of a process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// Connect phones until `to` are connected.
    Open { to: u64 },
    /// Register all phones that aren't registered.
    Register,
    /// Register `count` pseudo-random phones again, one after the other.
    Probe { count: u64 },
    /// Close all connections, then connect and register all phones again, `at_once` of them at a time.
    Return { at_once: u64 },
}

/// The results of an order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Done {
    /// Number of phones that completed it.
    pub(super) phones: u64,
    /// Duration in seconds.
    pub(super) elapsed_s: f64,
    /// Time of each phone, from its scheduled start.
    pub(super) times: Times,
    /// Number of answers with 503.
    pub(super) refused: u64,
    /// Connections that could not be opened, or ended before the answer.
    pub(super) broken: u64,
}

impl Done {
    /// Adds the results of another process at the same time.
    pub(super) fn merge(&mut self, other: &Self) {
        self.phones += other.phones;
        self.elapsed_s = self.elapsed_s.max(other.elapsed_s);
        self.times.merge(&other.times);
        self.refused += other.refused;
        self.broken += other.broken;
    }

    /// Returns the phones per second.
    pub(super) fn rate(&self) -> f64 {
        self.phones as f64 / self.elapsed_s.max(1e-9)
    }
}
