//! Timer changes requested by the state machines.

use core::time::Duration;

use super::timings::Timings;

/// The change of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timer {
    /// Leaves the timer as it is, running or not.
    #[default]
    Keep,
    /// Stops the timer.
    Stop,
    /// Restarts the timer.
    Start(Duration),
}

/// The changes of a transaction's two timers: one retransmits, the other ends the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timers {
    /// Timer A, E or G.
    pub resend: Timer,
    /// Any other timer.
    pub end: Timer,
}

impl Timers {
    /// Changes neither timer.
    pub const KEEP: Self = Self { resend: Timer::Keep, end: Timer::Keep };

    /// Stops retransmissions and ends the state after `delay`.
    #[must_use]
    pub const fn linger(delay: Duration) -> Self {
        Self { resend: Timer::Stop, end: Timer::Start(delay) }
    }

    /// The timers for a message sent for the first time. Over UDP it is retransmitted until the end timer
    /// fires.
    #[must_use]
    pub const fn attempt(reliable: bool, timings: &Timings) -> Self {
        let resend = if reliable { Timer::Stop } else { Timer::Start(timings.t1) };
        Self { resend, end: Timer::Start(timings.transaction_timeout()) }
    }
}
