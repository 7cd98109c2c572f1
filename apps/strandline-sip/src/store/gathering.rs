//! Decides whether a commit waits for more changes. If phones register one at a time, each would need its own
//! commit, with two thread wake-ups and a disk sync.

use std::time::Duration;

/// How long a commit waits. This is far below the 500 ms after which a phone retransmits, and in a city two
/// or three more requests arrive meanwhile.
pub(super) const GATHER: Duration = Duration::from_millis(20);
/// Number of pending responses from which a commit doesn't wait: at such a rate, changes gather while the
/// previous commit is running.
pub(super) const ENOUGH: usize = 8;
/// Number of waits in vain, in a row, after which waiting is suspended.
const ALONE_MAX: u32 = 4;
/// Number of commits that don't wait while waiting is suspended. A client that registers its phones one after
/// the other would otherwise be delayed each time.
const AT_ONCE: u32 = 128;

#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// Number of waits in vain, in a row.
    alone: u32,
    /// Number of commits left for which waiting is suspended.
    at_once: u32,
}

impl Gathering {
    /// Returns true if a commit that could start at once should wait for others.
    pub(super) fn waits(&mut self) -> bool {
        let waits = self.at_once == 0;
        self.at_once = self.at_once.saturating_sub(1);
        waits
    }

    /// Records the end of a wait, and the number of responses that the commit releases.
    pub(super) fn waited(&mut self, answers: usize) {
        if answers > 1 {
            self.alone = 0;
            return;
        }
        self.alone += 1;
        if self.alone == ALONE_MAX {
            (self.alone, self.at_once) = (0, AT_ONCE);
        }
    }
}

#[cfg(test)]
mod tests;
