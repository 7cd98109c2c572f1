//! What user agents are to do.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// T1 of RFC 3261.
pub(super) const T1: Duration = Duration::from_millis(500);

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum Scenario {
    /// Phones register, each from a source of its own.
    Register,
    /// Phones call phones through the server: INVITE, 180, 200, ACK, BYE, 200.
    Call,
    /// What a file says.
    #[value(skip)]
    File,
}

/// How many operations are begun, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) scenario: Scenario,
    /// The share of REGISTERs in the midst of calls.
    pub(super) renewals: f64,
    pub(super) users: u32,
    /// Another operation begins as soon as one is over.
    pub(super) closed: bool,
    /// Operations in all.
    pub(super) limit: u64,
    pub(super) timeout: Duration,
    /// Requests are sent again.
    pub(super) unreliable: bool,
    /// Those that begin from here on are counted.
    pub(super) counted_from: Instant,
    /// None begins from here on.
    pub(super) until: Instant,
}

impl Plan {
    /// Is it measured at this time?
    pub(super) fn measures(&self, now: Instant) -> bool {
        (self.counted_from..=self.until).contains(&now)
    }
}
