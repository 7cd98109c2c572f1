//! How old connections are, told by their numbers, and when strangers are looked for.

use std::collections::VecDeque;
use std::time::Duration;

/// A stranger that is younger is not shed: its first message may be on the way.
const AGE_MIN: Duration = Duration::from_millis(500);
/// The time between two marks, and how many are kept: enough to look back by `AGE_MIN`.
const MARK_EVERY: Duration = Duration::from_millis(100);
const MARKS: usize = 8;
/// Looking for strangers goes over all connections, so it is not done more often.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Which connections are old enough to be shed.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Times, and the number that the next connection had then: a connection with a smaller number is older.
    marks: VecDeque<(Duration, u64)>,
    looked: Option<Duration>,
    /// Newcomers that may come because as many strangers have just been shed.
    pub(super) places: usize,
}

impl Marks {
    /// Notes which number the next connection has.
    pub(super) fn mark(&mut self, now: Duration, next: u64) {
        if self.marks.back().is_some_and(|(last, _)| now.saturating_sub(*last) < MARK_EVERY) {
            return;
        }
        if self.marks.len() == MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back((now, next));
    }

    /// Connections with smaller numbers are older than `AGE_MIN`.
    pub(super) fn old_below(&self, now: Duration) -> u64 {
        let old = |mark: &&(Duration, u64)| now.saturating_sub(mark.0) >= AGE_MIN;
        self.marks.iter().rev().find(old).map_or(0, |(_, next)| *next)
    }

    /// Returns whether to look for strangers now.
    pub(super) fn looks(&mut self, now: Duration) -> bool {
        let is_due = self.looked.is_none_or(|last| now.saturating_sub(last) >= LOOK_EVERY);
        if is_due {
            self.looked = Some(now);
        }
        is_due
    }
}
