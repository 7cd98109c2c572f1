//! Deadlines of an association as a whole. A restart of the peer resets them.
//!
//! | timers | deadline |
//! |---|---|
//! | T1-init, T1-cookie, T2-shutdown, RE-CONFIG requests | [`Deadlines::control`] |
//! | T5-shutdown-guard, linger time | [`Deadlines::guard`] |
//! | buffers that release memory, zero window probes, lifetimes of messages | [`Deadlines::idle`], [`Deadlines::probe`], [`Deadlines::expiry`] |
//! | delayed SACK | `Inbound::sack_deadline` |
//! | the reordering timer of RACK | `Outbound::loss_deadline` |
//! | ASCONF | `Extras::deadline` |
//! | T3-rtx, heartbeats, path MTU probes, pacing, tail-loss probes, for each path | `Path::next_deadline` |
//!
//! `Association::next_deadline` returns the earliest of all, and [`timeout`](super::timeout) handles those that have
//! passed.

use crate::time::Time;

/// Deadlines of timers; `Time::MAX` for those that are stopped.
#[derive(Debug)]
pub(super) struct Deadlines {
    /// T1-init, T1-cookie or T2-shutdown, depending on the state; in states without one of them, the timer of a
    /// request to reconfigure streams.
    pub(super) control: Time,
    /// T5-shutdown-guard in SHUTDOWN-SENT, and the linger time in SHUTDOWN-PENDING and SHUTDOWN-RECEIVED.
    pub(super) guard: Time,
    /// When buffers that grew are released, unless data arrives before.
    pub(super) idle: Time,
    /// When the next zero window probe may be sent (section 6.1 rule A), or the next STREAM BLOCKED.
    pub(super) probe: Time,
    /// When the lifetime of a message ends (RFC 3758 section 4.1).
    pub(super) expiry: Time,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { control: Time::MAX, guard: Time::MAX, idle: Time::MAX, probe: Time::MAX, expiry: Time::MAX }
    }
}

impl Deadlines {
    #[inline]
    pub(super) fn earliest(&self) -> Time {
        self.control.min(self.guard).min(self.idle).min(self.probe).min(self.expiry)
    }
}
