//! The plan of user agents: which operations begin, and when.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// T1 of RFC 3261.
pub(super) const T1: Duration = Duration::from_millis(500);

/// The kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum Scenario {
    /// Register phones
    Register,
    /// Make calls through the server: INVITE, 180, 200, ACK, BYE, 200
    Call,
    /// The scenario of a file
    #[value(skip)]
    File,
}

/// The number of operations, and the times at which they begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) scenario: Scenario,
    /// Share of REGISTERs among calls.
    pub(super) renewals: f64,
    pub(super) users: u32,
    /// Whether another operation begins as soon as one is over.
    pub(super) closed: bool,
    /// Total number of operations.
    pub(super) limit: u64,
    pub(super) timeout: Duration,
    /// Whether the transport is unreliable, so that requests are retransmitted.
    pub(super) unreliable: bool,
    /// Operations that begin from this time on are counted.
    pub(super) counted_from: Instant,
    /// No operation begins from this time on.
    pub(super) until: Instant,
}

impl Plan {
    /// Returns whether the measurement includes this time.
    pub(super) fn measures(&self, now: Instant) -> bool {
        (self.counted_from..=self.until).contains(&now)
    }
}
