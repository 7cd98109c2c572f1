//! The clock of a shard.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::transaction::Time;

thread_local! {
    /// When this thread began to wait for something to do, and how long it has waited so far.
    static WAITING: Cell<(Option<Instant>, Duration)> = const { Cell::new((None, Duration::ZERO)) };
}

/// This thread has nothing to do, until [`has_work`].
pub(super) fn waits() {
    WAITING.set((Some(now()), WAITING.get().1));
}

/// This thread has something to do again.
pub(super) fn has_work() {
    let (since, so_far) = WAITING.get();
    let waited = since.map_or(Duration::ZERO, |since| now().duration_since(since));
    WAITING.set((None, so_far + waited));
}

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

    /// How long this thread has waited for something to do, since it was started.
    pub(super) fn idle(&self) -> Duration {
        WAITING.get().1
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
