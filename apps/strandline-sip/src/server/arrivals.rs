//! How many requests come each second, as far as a server can tell that is held up now and then: what came meanwhile is taken in
//! all at once, and isn't a flood. No I/O, no clock.

use std::time::Duration;

use super::socket::Came;

/// How much time is looked at, at least.
const LOOK: Duration = Duration::from_millis(100);
/// Somebody who is to be called every ten milliseconds was held up if he is called after so long.
const HELD_UP: Duration = Duration::from_millis(50);
/// How much time is looked at, at most: who is always held up looks then.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// Requests that begin something, since the start: see [`Came`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) first: u64,
    pub(super) all: u64,
    pub(super) stopped: u64,
    pub(super) handled: u64,
    pub(super) refused: u64,
    /// Microseconds in which there was nothing to do.
    pub(super) idle_us: u64,
}

/// Counts from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// When it was last looked, and what had come until then.
    looked: Duration,
    counts: Counts,
    /// When it was last called.
    called: Duration,
    /// When the server was last held up, until then.
    held_up: Option<Duration>,
}

impl Arrivals {
    /// To be called every ten milliseconds or so. Returns what came each second since the last look, if it is time for one: not
    /// before what was taken in after a pause is counted as what came in all of that pause.
    pub(super) fn look(&mut self, now: Duration, counts: Counts) -> Option<Came> {
        if now.saturating_sub(self.called) > HELD_UP {
            self.held_up = Some(now);
        }
        self.called = now;
        let elapsed = now.saturating_sub(self.looked);
        let calm = self.held_up.is_none_or(|until| now.saturating_sub(until) >= LOOK);
        if elapsed < LOOK || !calm && elapsed < LOOK_MAX {
            return None;
        }
        let last = self.counts;
        let per_sec = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed.as_secs_f64();
        let came = Came {
            elapsed,
            first: per_sec(counts.first, last.first),
            all: per_sec(counts.all, last.all),
            stopped: per_sec(counts.stopped, last.stopped),
            handled: per_sec(counts.handled, last.handled),
            refused: per_sec(counts.refused, last.refused),
            busy: (1.0 - per_sec(counts.idle_us, last.idle_us) / 1e6).clamp(0.0, 1.0),
        };
        (self.looked, self.counts, self.held_up) = (now, counts, None);
        Some(came)
    }
}

#[cfg(test)]
mod tests;
