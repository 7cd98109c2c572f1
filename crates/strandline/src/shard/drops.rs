//! Drops of the socket's receive queue, for the engine, which then makes windows smaller.

#[cfg(test)]
mod tests;

use std::time::Duration;

use strandline_proto::time::Time;

/// Minimum time between two looks at the counter, each of which is a system call: the length of an interval
/// in which the engine reacts to drops once.
const INTERVAL: Duration = Duration::from_millis(10);

/// The counter of a socket.
#[derive(Debug)]
pub(super) struct Drops {
    /// Drops at the last look; `None` if the carrier doesn't count them.
    seen: Option<u32>,
    next: Time,
}

impl Drops {
    pub(super) const fn new(seen: Option<u32>) -> Self {
        Self { seen, next: Time::ZERO }
    }

    /// Returns the number of datagrams that were dropped since the last look, or 0 if that was a moment ago.
    pub(super) fn look(&mut self, now: Time, count: impl FnOnce() -> Option<u32>) -> u32 {
        let Some(seen) = self.seen.filter(|_| now >= self.next) else { return 0 };
        self.next = now + INTERVAL;
        let now = count().unwrap_or(seen);
        self.seen = Some(now);
        now.wrapping_sub(seen)
    }
}
