//! The stack's clock: tokio's time converted to the engine's, so that tests with paused time run in virtual
//! time.

use strandline_proto::time::Time;
use tokio::time::Instant;

/// Converts between tokio's instants and the time since the stack was built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    /// Returns the tokio instant of a time; times more than a century away are limited to a century.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        const FAR_NANOS: u64 = 100 * 365 * 86_400 * 1_000_000_000;
        self.origin + std::time::Duration::from_nanos(time.as_nanos().min(FAR_NANOS))
    }
}

#[cfg(test)]
mod tests;
