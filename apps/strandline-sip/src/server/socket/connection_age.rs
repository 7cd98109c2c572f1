//! Determines the age of connections from their numbers, and when to search for strangers.

use std::collections::VecDeque;
use std::time::Duration;

/// Minimum age of a stranger that is closed. The first message of a younger one may be on its way.
pub(in crate::server) const AGE_MIN: Duration = Duration::from_millis(500);
/// The interval between marks, and the number of marks kept, which together cover `AGE_MIN`.
const MARK_EVERY: Duration = Duration::from_millis(100);
const MARKS: usize = 8;
/// Minimum interval between searches for strangers, which visit all connections.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Determines which connections are old enough to be closed.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Pairs of a time and the number that the next connection had then. Connections with lower numbers are
    /// older.
    marks: VecDeque<(Duration, u64)>,
    looked: Option<Duration>,
    /// Number of new connections that may still be accepted in place of strangers just closed.
    pub(super) places: usize,
}

impl Marks {
    /// Records the number of the next connection.
    pub(super) fn mark(&mut self, now: Duration, next: u64) {
        if self.marks.back().is_some_and(|(last, _)| now.saturating_sub(*last) < MARK_EVERY) {
            return;
        }
        if self.marks.len() == MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back((now, next));
    }

    /// Connections with lower numbers than this are older than `AGE_MIN`.
    pub(super) fn old_below(&self, now: Duration) -> u64 {
        let old = |mark: &&(Duration, u64)| now.saturating_sub(mark.0) >= AGE_MIN;
        self.marks.iter().rev().find(old).map_or(0, |(_, next)| *next)
    }

    /// Returns true if a search for strangers is due.
    pub(super) fn looks(&mut self, now: Duration) -> bool {
        let is_due = self.looked.is_none_or(|last| now.saturating_sub(last) >= LOOK_EVERY);
        if is_due {
            self.looked = Some(now);
        }
        is_due
    }
}
