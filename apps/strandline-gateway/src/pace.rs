//! When an association with a peer is set up again. No I/O.

use std::time::Duration;

/// Shortest and longest time between two attempts.
const BACK_OFF_MIN: Duration = Duration::from_millis(250);
pub(crate) const BACK_OFF_MAX: Duration = Duration::from_secs(30);
/// The time between two attempts begins anew after an association that has lasted for this time.
pub(crate) const STEADY: Duration = Duration::from_secs(10);

/// How an association ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing used it any more.
    Idle,
    /// The peer has handed over to another process.
    Moved,
    Lost,
}

/// The time until the next attempt, which doubles while associations don't last.
#[derive(Debug)]
pub(crate) struct Pace {
    back_off: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { back_off: BACK_OFF_MIN }
    }
}

impl Pace {
    /// Takes note of an association that has ended. Returns whether the next one may follow at once: a peer
    /// may hand over, but not again and again.
    pub(crate) fn goes_on(&mut self, ending: Ending, lasted: Duration) -> bool {
        // One that is refused ends at once.
        let was_steady = ending == Ending::Idle || lasted >= STEADY;
        if was_steady {
            self.back_off = BACK_OFF_MIN;
        }
        was_steady && ending != Ending::Lost
    }

    /// Returns the time until the next attempt: between half of the time and all of it, so that many gateways
    /// don't try at once.
    pub(crate) fn pause(&mut self, random: u32) -> Duration {
        let share = 0.5 + f64::from(random % 1000) / 2000.0;
        let pause = self.back_off.mul_f64(share);
        self.back_off = (self.back_off * 2).min(BACK_OFF_MAX);
        pause
    }
}

#[cfg(test)]
mod tests;
