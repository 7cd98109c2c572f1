//! The clock of a shard.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::transaction::Time;

/// Time since the server was started, and when that was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    start: Instant,
    /// Seconds since 1970 at the start.
    pub(super) epoch_unix_secs: u64,
}

/// The moment, for what has no server's clock.
#[allow(clippy::disallowed_methods)]
pub(super) fn now() -> Instant {
    Instant::now()
}

impl Clock {
    #[allow(clippy::disallowed_methods)]
    pub(super) fn start() -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), epoch_unix_secs: epoch.as_secs() }
    }

    /// Since the start, as fine as the system can tell.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn elapsed(&self) -> Duration {
        Instant::now().duration_since(self.start)
    }

    /// Time since 1970, as the system has it now.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn unix() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    #[allow(clippy::disallowed_methods)]
    pub(super) fn now(&self) -> Time {
        Time::ZERO + Instant::now().duration_since(self.start)
    }
}
