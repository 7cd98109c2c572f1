//! Measures the request rates of a server that is stalled now and then. The requests that arrive during a
//! stall are received all at once afterwards, which must not be mistaken for a flood. No I/O, no clock.

use std::time::Duration;

use super::socket::Came;

/// Minimum length of a measurement interval.
const LOOK: Duration = Duration::from_millis(100);
/// If the calls, due every ten milliseconds, are this far apart, the server was stalled.
const HELD_UP: Duration = Duration::from_millis(50);
/// Maximum length of an interval at whose ends datagrams wait unread, so that those received are not those
/// that have arrived.
const UNREAD_MAX: Duration = Duration::from_millis(200);
/// Maximum length of a measurement interval, for a server that is stalled all the time.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// Counters of requests that begin something, since the start: see [`Came`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) first: u64,
    pub(super) all: u64,
    /// Those of `all` that are REGISTERs.
    pub(super) registers: u64,
    pub(super) stopped: u64,
    pub(super) handled: u64,
    pub(super) refused: u64,
    pub(super) times: Times,
    /// True if datagrams may wait unread.
    pub(super) unread: bool,
}

/// Times of the thread, since its start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    /// The time in which it waited for input.
    pub(super) idle: Duration,
    /// Its processor time.
    pub(super) worked: Duration,
}

/// Computes rates from one measurement to the next.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// The time of the last measurement, and the counters at that time.
    looked: Duration,
    counts: Counts,
    /// The time of the last call.
    called: Duration,
    /// The end of the last stall, if any.
    held_up: Option<Duration>,
}

impl Arrivals {
    /// Call this about every ten milliseconds. Returns the rates since the last measurement, if a new one is
    /// due. After a stall it waits until the backlog has been received, so that the backlog is spread over
    /// the whole stall.
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
        let began_unread = self.counts.unread;
        if began_unread && counts.unread && elapsed < UNREAD_MAX {
            return None;
        }
        let last = self.counts;
        let per_sec = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed.as_secs_f64();
        let share = |now: Duration, before: Duration| {
            (now.saturating_sub(before).as_secs_f64() / elapsed.as_secs_f64()).clamp(0.0, 1.0)
        };
        let came = Came {
            elapsed,
            first: per_sec(counts.first, last.first),
            all: per_sec(counts.all, last.all),
            registers: per_sec(counts.registers, last.registers),
            began_unread,
            stopped: per_sec(counts.stopped, last.stopped),
            handled: per_sec(counts.handled, last.handled),
            refused: per_sec(counts.refused, last.refused),
            busy: 1.0 - share(counts.times.idle, last.times.idle),
            worked: share(counts.times.worked, last.times.worked),
            ..Came::default()
        };
        (self.looked, self.counts, self.held_up) = (now, counts, None);
        Some(came)
    }
}

#[cfg(test)]
mod tests;
