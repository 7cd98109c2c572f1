//! What client transactions answer to their inputs.

use super::step::Timers;

/// After a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientStep {
    /// It is passed on.
    pub deliver: bool,
    /// It is acknowledged.
    pub ack: bool,
    /// The transaction is over.
    pub ended: bool,
    /// Its timers.
    pub timers: Timers,
}

impl ClientStep {
    pub(crate) const ABSORB: Self = Self { deliver: false, ack: false, ended: false, timers: Timers::KEEP };

    pub(crate) const fn deliver(timers: Timers) -> Self {
        Self { deliver: true, ack: false, ended: false, timers }
    }
}

/// What the end of a state means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// No final response came: to be told as 408 would be.
    TimedOut,
    /// An INVITE has rung for too long (timer C): the transaction goes on until it is cancelled.
    RingingTooLong,
    /// All is as it should be.
    Over,
}
