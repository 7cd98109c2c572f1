//! Validates ECN on a path (decision 38). Some routers drop ECN-capable packets, and some mark all of them.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Time;

/// Number of consecutive times that ECN-capable data is lost entirely before ECN is given up.
const STRIKES_MAX: u8 = 3;
/// Number of round trips within which an acknowledgement is expected.
const ROUND_TRIPS: u32 = 2;
/// Number of consecutive marks, each of another window, at a minimal window before ECN is given up.
const MARKS_AT_FLOOR_MAX: u8 = 10;
/// Marks are consecutive if they arrive within `IN_A_ROW` round trips plus the delay of an acknowledgement.
const IN_A_ROW: u32 = 4;
const ACKNOWLEDGED_AFTER: Duration = Duration::from_millis(200);
/// A window of at most this many packets counts as minimal.
const FLOOR_PACKETS: u32 = 4;

/// The ECN validation of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EcnTrial {
    /// Start of the period since which all new data was ECN-capable, or the time when such data was last
    /// acknowledged; `Time::MAX` if none was sent since the last strike.
    since: Time,
    /// When the first ECN-capable data of the period was sent.
    first: Time,
    /// When the first new data without ECN was sent after it; `Time::MAX` if none was.
    until: Time,
    strikes: u8,
    marks_at_floor: u8,
    /// Arrival time of the latest mark.
    marked_at: Time,
    failed: bool,
}

impl Default for EcnTrial {
    fn default() -> Self {
        let never = Time::MAX;
        let (strikes, marks_at_floor, marked_at) = (0, 0, Time::ZERO);
        Self { since: never, first: never, until: never, strikes, marks_at_floor, marked_at, failed: false }
    }
}

impl EcnTrial {
    /// True if ECN is given up on this path: packets are not sent as ECN-capable, and marks are ignored.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Records that new data was sent. `capable` is true if its packets were ECN-capable.
    pub(crate) fn on_new_data(&mut self, now: Time, capable: bool) {
        if !capable {
            self.until = self.until.min(now);
        } else if self.first == Time::MAX || self.until != Time::MAX {
            (self.since, self.first, self.until) = (now, now, Time::MAX);
        }
    }

    /// Records that data sent once, at `sent_at`, was acknowledged. If it was ECN-capable, the path carries such
    /// packets.
    pub(crate) fn on_acked(&mut self, now: Time, sent_at: Time) {
        if sent_at >= self.first && sent_at < self.until {
            self.since = now;
            self.strikes = 0;
        }
    }

    /// Records a loss or time-out. Returns true if it makes ECN fail: repeatedly no ECN-capable packet arrived.
    pub(crate) fn on_lost(&mut self, now: Time, round_trip: Duration) -> bool {
        if self.failed || self.first == Time::MAX || now < self.since + round_trip * ROUND_TRIPS {
            return false;
        }
        (self.since, self.first, self.until) = (Time::MAX, Time::MAX, Time::MAX);
        self.strikes += 1;
        self.failed = self.strikes >= STRIKES_MAX;
        self.failed
    }

    /// Records a mark that arrived with a window of `window` bytes and packets of `pmdcs` bytes. Returns true if it
    /// makes ECN fail: the marks do not depend on the amount sent.
    pub(crate) fn on_mark(&mut self, now: Time, round_trip: Duration, window: u32, pmdcs: u32) -> bool {
        if self.failed {
            return false;
        }
        let in_a_row = now.since(self.marked_at) <= round_trip * IN_A_ROW + ACKNOWLEDGED_AFTER;
        self.marked_at = now;
        if window > pmdcs.saturating_mul(FLOOR_PACKETS) {
            self.marks_at_floor = 0;
            return false;
        }
        self.marks_at_floor = if in_a_row { self.marks_at_floor + 1 } else { 1 };
        self.failed = self.marks_at_floor >= MARKS_AT_FLOOR_MAX;
        self.failed
    }
}
