//! The INVITE client transaction (RFC 3261 section 17.1.1, corrected by RFC 6026 section 7.2).

use core::time::Duration;

use crate::codec::StatusCode;

use super::client::{ClientStep, Ended};
use super::step::{Timer, Timers};
use super::timings::Timings;

/// ```text
///              INVITE sent
///                  |        A: retransmit
///              Calling  ------------------- B or failure to send: report, end
///        1xx /    |    \ 300-699: ACK
///   Proceeding    | 2xx  `-----> Completed --- D: end
///     |   \       |                ^  300-699 again: repeat ACK
///     |    `------+------> Accepted --- M: end
///     |   2xx              2xx again: pass on
///     `-- 300-699: ACK, Completed;  C: report
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InviteClient {
    /// No response yet. Holds the interval to the next retransmission.
    Calling(Duration),
    /// A provisional response was received.
    Proceeding,
    /// A response from 300 to 699 was received and acknowledged.
    Completed,
    /// A 2xx response was received. Each 2xx is passed on.
    Accepted,
}

impl InviteClient {
    /// Starts the transaction when the INVITE is sent.
    #[must_use]
    pub const fn start(reliable: bool, timings: &Timings) -> (Self, Timers) {
        (Self::Calling(timings.t1), Timers::attempt(reliable, timings))
    }

    /// Handles a response.
    pub fn on_response(&mut self, code: StatusCode, reliable: bool, timings: &Timings) -> ClientStep {
        match (*self, code.class()) {
            (Self::Calling(_) | Self::Proceeding, 1) => {
                // 100 comes from the next hop and doesn't mean that the callee rings (section 16.7, step 2).
                let first = matches!(self, Self::Calling(_));
                *self = Self::Proceeding;
                let restart = first || code != StatusCode::TRYING;
                let end = if restart { Timer::Start(timings.c) } else { Timer::Keep };
                ClientStep::deliver(Timers { resend: Timer::Stop, end })
            }
            (Self::Calling(_) | Self::Proceeding, 2) => {
                *self = Self::Accepted;
                ClientStep::deliver(Timers::linger(timings.transaction_timeout()))
            }
            (Self::Calling(_) | Self::Proceeding, _) => {
                *self = Self::Completed;
                let delay = if reliable { Duration::ZERO } else { timings.d() };
                ClientStep { ack: true, ended: reliable, ..ClientStep::deliver(Timers::linger(delay)) }
            }
            (Self::Completed, 3..) => ClientStep { ack: true, ..ClientStep::ABSORB },
            (Self::Accepted, 2) => ClientStep::deliver(Timers::KEEP),
            (Self::Completed | Self::Accepted, _) => ClientStep::ABSORB,
        }
    }

    /// Timer A: retransmits the INVITE.
    pub fn on_resend(&mut self) -> Timers {
        let Self::Calling(interval) = self else { return Timers { resend: Timer::Stop, end: Timer::Keep } };
        *interval = interval.saturating_mul(2);
        Timers { resend: Timer::Start(*interval), end: Timer::Keep }
    }

    /// Timer B, C, D or M.
    #[must_use]
    pub const fn on_end(&self) -> Ended {
        match self {
            Self::Calling(_) => Ended::TimedOut,
            Self::Proceeding => Ended::RingingTooLong,
            Self::Completed | Self::Accepted => Ended::Over,
        }
    }
}
