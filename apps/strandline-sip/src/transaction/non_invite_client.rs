//! The non-INVITE client transaction (RFC 3261 section 17.1.2).

use core::time::Duration;

use crate::codec::StatusCode;

use super::client::{ClientStep, Ended};
use super::step::{Timer, Timers};
use super::timings::Timings;

/// ```text
///            request sent
///                |       E: retransmit
///             Trying ------------------- F or failure to send: report, end
///          1xx /    \ 200-699
///      Proceeding -- Completed --- K: end
///        E: retransmit every T2;  F: report, end
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonInviteClient {
    /// No response yet. Holds the interval to the next retransmission.
    Trying(Duration),
    /// A provisional response was received.
    Proceeding,
    /// A final response was received. Later responses are absorbed.
    Completed,
}

impl NonInviteClient {
    /// Starts the transaction when the request is sent.
    #[must_use]
    pub const fn start(reliable: bool, timings: &Timings) -> (Self, Timers) {
        (Self::Trying(timings.t1), Timers::attempt(reliable, timings))
    }

    /// Handles a response.
    pub fn on_response(&mut self, code: StatusCode, reliable: bool, timings: &Timings) -> ClientStep {
        match (*self, code.is_provisional()) {
            (Self::Completed, _) => ClientStep::ABSORB,
            (Self::Trying(_) | Self::Proceeding, true) => {
                *self = Self::Proceeding;
                let resend = if reliable { Timer::Stop } else { Timer::Start(timings.t2) };
                ClientStep::deliver(Timers { resend, end: Timer::Keep })
            }
            (Self::Trying(_) | Self::Proceeding, false) => {
                *self = Self::Completed;
                ClientStep { ended: reliable, ..ClientStep::deliver(Timers::linger(timings.t4)) }
            }
        }
    }

    /// Timer E: retransmits the request.
    pub fn on_resend(&mut self, timings: &Timings) -> Timers {
        let interval = match self {
            Self::Trying(interval) => {
                *interval = timings.doubled(*interval);
                *interval
            }
            Self::Proceeding => timings.t2,
            Self::Completed => return Timers { resend: Timer::Stop, end: Timer::Keep },
        };
        Timers { resend: Timer::Start(interval), end: Timer::Keep }
    }

    /// Timer F or K.
    #[must_use]
    pub const fn on_end(&self) -> Ended {
        match self {
            Self::Trying(_) | Self::Proceeding => Ended::TimedOut,
            Self::Completed => Ended::Over,
        }
    }
}
