//! How many tail-loss probes a path sends while nothing is acknowledged, and how far apart they are (decision 82 says when the first
//! one goes, decision 99 how many follow).
//!
//! Two probes may go for a flight. The first time-out adds none, each later one allows one more, and what is not used is not saved up:
//! for n packets that RFC 9260 sends to a silent peer there are at most n probes, from the second packet on. Each interval is twice as
//! long as the one before it, across time-outs. Only an acknowledgement of something new starts anew.

#[cfg(test)]
mod tests;

use core::time::Duration;

/// Probes for a flight.
const FOR_A_FLIGHT: u8 = 2;

/// With a longer RTO one probe goes before T3-rtx expires: RFC 9260 sends a packet or two in a minute then.
const RTO_OF_TWO_MAX: Duration = Duration::from_secs(30);

/// The interval grows no further after so many probes.
const DOUBLINGS_MAX: u8 = 15;

/// Bits of [`Probes`]: how many went, how many may go before T3-rtx expires, and two flags.
const SENT: u8 = 0x0f;
const LEFT_SHIFT: u8 = 4;
const LEFT: u8 = 3 << LEFT_SHIFT;
const ASKED: u8 = 1 << 6;
const TIMED_OUT: u8 = 1 << 7;

/// The probes of one path since something new was acknowledged on it: one byte, as there may be millions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probes(u8);

impl Default for Probes {
    fn default() -> Self {
        Self(FOR_A_FLIGHT << LEFT_SHIFT)
    }
}

impl Probes {
    const fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    const fn sent(self) -> u8 {
        self.0 & SENT
    }

    const fn left(self) -> u8 {
        (self.0 & LEFT) >> LEFT_SHIFT
    }

    const fn set_left(&mut self, left: u8) {
        self.0 = self.0 & !LEFT | left << LEFT_SHIFT;
    }

    /// No probe went since something new was acknowledged.
    pub(super) const fn is_first(self) -> bool {
        self.sent() == 0
    }

    /// How long the next probe waits, if one may go. `first`: what the first one of a flight waits.
    pub(super) fn interval(self, first: Duration, rto: Duration) -> Option<Duration> {
        let spared = u8::from(rto > RTO_OF_TWO_MAX && !self.has(TIMED_OUT));
        (self.left() > spared).then(|| first.saturating_mul(1 << self.sent()))
    }

    /// A probe is to go.
    pub(super) const fn on_probe(&mut self) {
        self.on_asked();
        self.0 |= ASKED;
    }

    /// A packet that asks whether the peer's window has room counts as a probe.
    pub(super) const fn on_asked(&mut self) {
        if self.sent() < DOUBLINGS_MAX {
            self.0 += 1;
        }
        self.set_left(self.left().saturating_sub(1));
    }

    /// T3-rtx expired.
    pub(super) const fn on_timeout(&mut self) {
        if self.has(TIMED_OUT) {
            self.set_left(1);
        }
        self.0 = self.0 & !ASKED | TIMED_OUT;
    }

    /// Something new was acknowledged.
    pub(super) fn on_acked(&mut self) {
        *self = Self::default();
    }

    /// A probe went since the latest time-out.
    pub(super) const fn has_asked(self) -> bool {
        self.has(ASKED)
    }
}
