//! The outcomes of server transactions.

use super::step::Timers;

/// The outcome of a response to send, or of an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerStep {
    /// Whether to send the response, or to pass the ACK on.
    pub send: bool,
    /// Whether the transaction is over.
    pub ended: bool,
    /// The changes of its timers.
    pub timers: Timers,
}

impl ServerStep {
    pub(crate) const REFUSE: Self = Self { send: false, ended: false, timers: Timers::KEEP };

    pub(crate) const fn send(timers: Timers) -> Self {
        Self { send: true, ended: false, timers }
    }
}

/// The outcome of a retransmitted request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The last response is retransmitted.
    Again,
    /// The request is ignored.
    Absorb,
}

/// The meaning of an end timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerEnded {
    /// No ACK was received.
    NoAck,
    /// The transaction ended normally.
    Over,
}
