//! The outcomes of client transactions.

use super::step::Timers;

/// The outcome of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientStep {
    /// Whether to pass the response on.
    pub deliver: bool,
    /// Whether to send an ACK.
    pub ack: bool,
    /// Whether the transaction is over.
    pub ended: bool,
    /// The changes of its timers.
    pub timers: Timers,
}

impl ClientStep {
    pub(crate) const ABSORB: Self = Self { deliver: false, ack: false, ended: false, timers: Timers::KEEP };

    pub(crate) const fn deliver(timers: Timers) -> Self {
        Self { deliver: true, ack: false, ended: false, timers }
    }
}

/// The meaning of an end timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// No final response came. The caller treats this as a 408 response.
    TimedOut,
    /// An INVITE has been ringing for too long (timer C). The transaction continues until it is cancelled.
    RingingTooLong,
    /// The transaction ended normally.
    Over,
}
