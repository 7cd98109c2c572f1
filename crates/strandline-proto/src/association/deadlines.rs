//! Deadlines of an association as a whole; those of its paths are in `path`. A restart of the peer resets them.

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
    /// When the next zero window probe may be sent (section 6.1 rule A).
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
