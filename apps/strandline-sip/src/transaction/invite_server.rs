//! The INVITE server transaction (RFC 3261 section 17.2.1, corrected by RFC 6026 section 7.1).

use core::time::Duration;

use crate::codec::StatusCode;

use super::server::{Arrival, ServerEnded, ServerStep};
use super::step::{Timer, Timers};
use super::timings::Timings;

/// ```text
///              INVITE received: send 100 after 200 ms without another response
///                  |        INVITE again: repeat last response
///             Proceeding
///      300-699 /      \ 2xx
///     Completed        Accepted --- L: end
///      |   |  H: report, end    INVITE again: absorb; 2xx again: send; ACK: pass on
///      | ACK
///  Confirmed --- I: end
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InviteServer {
    /// No final response was sent yet.
    Proceeding,
    /// A response from 300 to 699 was sent. Holds the interval to its next retransmission.
    Completed(Duration),
    /// The ACK was received.
    Confirmed,
    /// A 2xx response was sent.
    Accepted,
}

impl InviteServer {
    /// Handles a response to send.
    pub fn on_respond(&mut self, code: StatusCode, reliable: bool, timings: &Timings) -> ServerStep {
        match (*self, code.class()) {
            (Self::Proceeding, 1) => ServerStep::send(Timers { resend: Timer::Stop, end: Timer::Keep }),
            (Self::Proceeding, 2) => {
                *self = Self::Accepted;
                ServerStep::send(Timers::linger(timings.transaction_timeout()))
            }
            (Self::Proceeding, _) => {
                *self = Self::Completed(timings.t1);
                ServerStep::send(Timers::attempt(reliable, timings))
            }
            // 2xx responses of other branches, and retransmissions until the ACK arrives.
            (Self::Accepted, 2) => ServerStep::send(Timers::KEEP),
            _ => ServerStep::REFUSE,
        }
    }

    /// Handles a retransmitted INVITE.
    #[must_use]
    pub const fn on_request(&self) -> Arrival {
        match self {
            Self::Proceeding | Self::Completed(_) => Arrival::Again,
            Self::Confirmed | Self::Accepted => Arrival::Absorb,
        }
    }

    /// Handles an ACK. The outcome says whether it belongs to a 2xx and is passed on.
    pub fn on_ack(&mut self, reliable: bool, timings: &Timings) -> ServerStep {
        match self {
            Self::Completed(_) => {
                *self = Self::Confirmed;
                let timers = Timers::linger(if reliable { Duration::ZERO } else { timings.t4 });
                ServerStep { send: false, ended: reliable, timers }
            }
            Self::Accepted => ServerStep::send(Timers::KEEP),
            Self::Proceeding | Self::Confirmed => ServerStep::REFUSE,
        }
    }

    /// Timer G: retransmits the response, or sends the delayed 100 for the first time.
    pub fn on_resend(&mut self, timings: &Timings) -> Timers {
        let Self::Completed(interval) = self else { return Timers { resend: Timer::Stop, end: Timer::Keep } };
        *interval = timings.doubled(*interval);
        Timers { resend: Timer::Start(*interval), end: Timer::Keep }
    }

    /// Timer H, I or L.
    #[must_use]
    pub const fn on_end(&self) -> ServerEnded {
        match self {
            Self::Completed(_) => ServerEnded::NoAck,
            Self::Proceeding | Self::Confirmed | Self::Accepted => ServerEnded::Over,
        }
    }
}
