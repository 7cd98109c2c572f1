//! The non-INVITE server transaction (RFC 3261 section 17.2.2).

use crate::codec::StatusCode;

use super::server::{Arrival, ServerStep};
use super::step::Timers;
use super::timings::Timings;

/// ```text
///        request received
///             |            request again: absorb
///          Trying
///       1xx /    \ 200-699
///   Proceeding -- Completed --- J: end
///     request again: repeat last response
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonInviteServer {
    /// No response was sent yet.
    Trying,
    /// A provisional response was sent.
    Proceeding,
    /// The final response was sent.
    Completed,
}

impl NonInviteServer {
    /// Handles a response to send.
    pub fn on_respond(&mut self, code: StatusCode, reliable: bool, timings: &Timings) -> ServerStep {
        match (*self, code.is_provisional()) {
            (Self::Completed, _) => ServerStep::REFUSE,
            (_, true) => {
                *self = Self::Proceeding;
                ServerStep::send(Timers::KEEP)
            }
            (_, false) => {
                *self = Self::Completed;
                ServerStep {
                    ended: reliable,
                    ..ServerStep::send(Timers::linger(timings.transaction_timeout()))
                }
            }
        }
    }

    /// Handles a retransmitted request.
    #[must_use]
    pub const fn on_request(&self) -> Arrival {
        match self {
            Self::Trying => Arrival::Absorb,
            Self::Proceeding | Self::Completed => Arrival::Again,
        }
    }
}
