//! What the processes are told and what they tell: one JSON value a line.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::histogram::Times;

/// What a process has, told once at its start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Part {
    /// The server's TCP or SCTP port.
    pub(super) server: SocketAddr,
    /// With SCTP, the UDP port that carries it.
    pub(super) carrier: Option<u16>,
    /// Addresses that phones have.
    pub(super) hosts: Vec<IpAddr>,
    /// Number of the first user.
    pub(super) first: u32,
    /// Users, whose phones they are by turns.
    pub(super) users: u32,
    /// Tells Call-IDs from those of other runs.
    pub(super) run: u64,
    /// The core to keep to; any without.
    pub(super) core: Option<usize>,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// Connect until so many phones are.
    Open { to: u64 },
    /// Those register that haven't.
    Register,
    /// So many phones register once more, one after the other, as good as random ones.
    Probe { count: u64 },
    /// All connections end; then all phones connect and register again, so many at once.
    Return { at_once: u64 },
}

/// What was done.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Done {
    /// Phones that did it.
    pub(super) phones: u64,
    /// How long that took, seconds.
    pub(super) elapsed_s: f64,
    /// Of each phone, from when it was to begin.
    pub(super) times: Times,
    /// Answers with 503.
    pub(super) refused: u64,
    /// Connections that could not be opened, or ended before the answer.
    pub(super) broken: u64,
}

impl Done {
    /// Adds what another process did at the same time.
    pub(super) fn merge(&mut self, other: &Self) {
        self.phones += other.phones;
        self.elapsed_s = self.elapsed_s.max(other.elapsed_s);
        self.times.merge(&other.times);
        self.refused += other.refused;
        self.broken += other.broken;
    }

    /// Phones a second.
    pub(super) fn rate(&self) -> f64 {
        self.phones as f64 / self.elapsed_s.max(1e-9)
    }
}
