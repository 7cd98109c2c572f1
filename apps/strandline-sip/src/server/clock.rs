//! The clock of a shard.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::transaction::Time;

thread_local! {
    /// The time at which this thread began to wait for work, and its idle time so far.
    static WAITING: Cell<(Option<Instant>, Duration)> = const { Cell::new((None, Duration::ZERO)) };
}

/// Marks the thread as idle, until [`has_work`] is called.
pub(super) fn waits() {
    WAITING.set((Some(now()), WAITING.get().1));
}

/// Marks the thread as busy again.
pub(super) fn has_work() {
    let (since, so_far) = WAITING.get();
    let waited = since.map_or(Duration::ZERO, |since| now().duration_since(since));
    WAITING.set((None, so_far + waited));
}

/// The processor time of this thread. Time in which other processes or a quota kept it from running is not
/// part of it.
pub(super) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// The time since the start of the server, and the time of the start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    start: Instant,
    /// The time of the start, in seconds since 1970-01-01.
    pub(super) epoch_unix_secs: u64,
}

/// The current time, for code without access to a [`Clock`].
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

    /// The time since the start, at the full resolution of the system.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn elapsed(&self) -> Duration {
        Instant::now().duration_since(self.start)
    }

    /// The idle time of this thread since its start.
    pub(super) fn idle(&self) -> Duration {
        WAITING.get().1
    }

    /// The current system time since 1970-01-01.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn unix() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    #[allow(clippy::disallowed_methods)]
    pub(super) fn now(&self) -> Time {
        Time::ZERO + Instant::now().duration_since(self.start)
    }
}
