//! What server transactions answer to their inputs.

use super::step::Timers;

/// After a response to send, or an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerStep {
    /// The response is sent; an ACK is passed on.
    pub send: bool,
    /// The transaction is over.
    pub ended: bool,
    /// Its timers.
    pub timers: Timers,
}

impl ServerStep {
    pub(crate) const REFUSE: Self = Self { send: false, ended: false, timers: Timers::KEEP };

    pub(crate) const fn send(timers: Timers) -> Self {
        Self { send: true, ended: false, timers }
    }
}

/// What becomes of a request that came again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The last response is sent again.
    Again,
    /// Nothing.
    Absorb,
}

/// What the end of a state means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerEnded {
    /// No ACK came.
    NoAck,
    /// All is as it should be.
    Over,
}
