//! Whether a path carries packets that may be marked (ECN), and whether its marks mean anything: decision 38. Some routers drop
//! such packets, some mark them all.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Time;

/// So many times in a row what said that it may be marked was lost and none of it arrived.
const STRIKES_MAX: u8 = 3;
/// Round trips after which an acknowledgement would have come.
const PATIENCE: u32 = 2;
/// So many marks in a row, each of another window, came though the window is as small as it gets.
const MARKS_AT_FLOOR_MAX: u8 = 10;
/// Those are in a row that come within so many round trips of one another, and what an acknowledgement may be delayed by.
const IN_A_ROW: u32 = 4;
const ACKNOWLEDGED_AFTER: Duration = Duration::from_millis(200);
/// A window of so many packets, or less, is about as small as it gets.
const FLOOR_PACKETS: u32 = 4;

/// What is known of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EcnTrial {
    /// From when on all new data went with packets that may be marked, or when such data was last acknowledged; `Time::MAX`: none
    /// has gone since the last strike.
    since: Time,
    /// The first such data went then.
    first: Time,
    /// New data without it went first at this time; `Time::MAX`: none has.
    until: Time,
    strikes: u8,
    marks_at_floor: u8,
    /// When the latest of these came.
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
    /// ECN is given up on the path: nothing says that it may be marked, and marks count for nothing.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// New data went; `capable`: its packets say that they may be marked.
    pub(crate) fn on_new_data(&mut self, now: Time, capable: bool) {
        if !capable {
            self.until = self.until.min(now);
        } else if self.first == Time::MAX || self.until != Time::MAX {
            (self.since, self.first, self.until) = (now, now, Time::MAX);
        }
    }

    /// Data that was sent once, at `sent_at`, is acknowledged: if it went in a packet that may be marked, the path carries them.
    pub(crate) fn on_acked(&mut self, now: Time, sent_at: Time) {
        if sent_at >= self.first && sent_at < self.until {
            self.since = now;
            self.strikes = 0;
        }
    }

    /// Something was lost, or a time-out says so. True if that ends the trial: again and again none of what may be marked arrived.
    pub(crate) fn on_lost(&mut self, now: Time, round_trip: Duration) -> bool {
        if self.failed || self.first == Time::MAX || now < self.since + round_trip * PATIENCE {
            return false;
        }
        (self.since, self.first, self.until) = (Time::MAX, Time::MAX, Time::MAX);
        self.strikes += 1;
        self.failed = self.strikes >= STRIKES_MAX;
        self.failed
    }

    /// A mark came while the window was so many bytes, at `pmdcs` for a packet. True if that ends the trial: the marks are not
    /// about how much is sent.
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
