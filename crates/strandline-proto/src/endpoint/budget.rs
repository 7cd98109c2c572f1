//! How many INITs are answered: a flood must not take the time of the associations that there are.

use core::time::Duration;

use crate::time::Time;

/// INITs taken at once after a quiet time, in proportion to what is taken in a second: a storm of set-ups after a failure
/// of the network passes whole.
const STORM_SHARE: u32 = 4;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A bucket that fills at a steady rate and is emptied by INITs.
#[derive(Debug)]
pub(super) struct InitBudget {
    rate: u32,
    left: u32,
    /// Up to when the bucket has been filled.
    filled: Time,
}

impl InitBudget {
    /// `rate`: INITs a second.
    pub(super) fn new(rate: u32, now: Time) -> Self {
        Self { rate, left: Self::most(rate), filled: now }
    }

    fn most(rate: u32) -> u32 {
        (rate / STORM_SHARE).max(1)
    }

    /// True if one more may be answered.
    pub(super) fn take(&mut self, now: Time) -> bool {
        self.fill(now);
        let one = u32::from(self.left > 0);
        self.left -= one;
        one == 1
    }

    fn fill(&mut self, now: Time) {
        let rate = u64::from(self.rate);
        let nanos = now.since(self.filled).as_nanos();
        if nanos >= u128::from(NANOS_PER_SECOND) {
            (self.left, self.filled) = (Self::most(self.rate), now);
            return;
        }
        let due = nanos as u64 * rate / NANOS_PER_SECOND;
        self.left = self.left.saturating_add(due as u32).min(Self::most(self.rate));
        // What is not a whole one yet stays due.
        self.filled += Duration::from_nanos(due * NANOS_PER_SECOND / rate);
    }
}

#[cfg(test)]
mod tests;
