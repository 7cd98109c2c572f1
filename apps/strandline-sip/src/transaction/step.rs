//! What a state machine wants done with its timers.

use core::time::Duration;

use super::timings::Timings;

/// What becomes of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timer {
    /// It runs on, or doesn't run, as before.
    #[default]
    Keep,
    /// It stops.
    Stop,
    /// It starts anew.
    Start(Duration),
}

/// The two timers that a transaction has at most: one to send again, one to end its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timers {
    /// A, E or G.
    pub resend: Timer,
    /// Any other.
    pub end: Timer,
}

impl Timers {
    /// Nothing changes.
    pub const KEEP: Self = Self { resend: Timer::Keep, end: Timer::Keep };

    /// Nothing is sent again, and the state ends after `delay`.
    #[must_use]
    pub const fn linger(delay: Duration) -> Self {
        Self { resend: Timer::Stop, end: Timer::Start(delay) }
    }

    /// A request or response goes out first: over UDP it is sent again until the end.
    #[must_use]
    pub const fn attempt(reliable: bool, timings: &Timings) -> Self {
        let resend = if reliable { Timer::Stop } else { Timer::Start(timings.t1) };
        Self { resend, end: Timer::Start(timings.patience()) }
    }
}
