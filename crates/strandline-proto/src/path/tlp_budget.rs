//! Number and spacing of the tail-loss probes that a path sends while nothing is acknowledged. Decision 82 covers the
//! first probe, decision 99 the following ones.
//!
//! Two probes may be sent per flight. The first time-out adds none, and each later one allows one more. Unused probes
//! are not saved up. For n packets that RFC 9260 sends to a silent peer there are at most n probes, from the second
//! packet on. Each interval is twice as long as the one before it, across time-outs. Only an acknowledgement of new
//! data resets this.
//!
//! Data that goes again for another reason while the peer acknowledges nothing takes its packet from the same budget.

#[cfg(test)]
mod tests;

use core::time::Duration;

/// Number of probes per flight.
const FOR_A_FLIGHT: u8 = 2;

/// With a longer RTO only one probe is sent before T3-rtx expires, because RFC 9260 then sends a packet or two per
/// minute.
const RTO_OF_TWO_MAX: Duration = Duration::from_secs(30);

/// Number of probes after which the interval stops growing.
const DOUBLINGS_MAX: u8 = 15;

/// Bits of [`Probes`]: the number sent, the number left before T3-rtx expires, and two flags.
const SENT: u8 = 0x0f;
const LEFT_SHIFT: u8 = 4;
const LEFT: u8 = 3 << LEFT_SHIFT;
/// In place of the number left: none, and the next time-out adds none either.
const OWES: u8 = 3;
const PROBED: u8 = 1 << 6;
const TIMED_OUT: u8 = 1 << 7;

/// The probes of one path since new data was acknowledged on it. One byte, because there may be millions of paths.
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
        if self.owes() { 0 } else { (self.0 & LEFT) >> LEFT_SHIFT }
    }

    /// True if the packet that the next time-out adds was sent before.
    const fn owes(self) -> bool {
        self.0 & LEFT == OWES << LEFT_SHIFT
    }

    const fn set_left(&mut self, left: u8) {
        self.0 = self.0 & !LEFT | left << LEFT_SHIFT;
    }

    /// True if no probe was sent since new data was acknowledged.
    pub(super) const fn is_first(self) -> bool {
        self.sent() == 0
    }

    /// Returns the wait before the next probe, or `None` if none may be sent. `first` is the wait before the first
    /// probe of a flight.
    pub(super) fn interval(self, first: Duration, rto: Duration) -> Option<Duration> {
        let spared = u8::from(rto > RTO_OF_TWO_MAX && !self.has(TIMED_OUT));
        (self.left() > spared).then(|| first.saturating_mul(1 << self.sent()))
    }

    /// Records that a probe is about to be sent.
    pub(super) const fn on_probe(&mut self) {
        self.on_window_probe();
        self.0 |= PROBED;
    }

    /// Records a packet that tests whether the peer's window has room. It counts as a probe.
    pub(super) const fn on_window_probe(&mut self) {
        if self.sent() < DOUBLINGS_MAX {
            self.0 += 1;
        }
        self.set_left(self.left().saturating_sub(1));
    }

    /// Takes a packet for data that timed out, since the peer asks for it again. Returns false if the budget has none.
    /// The first time-out adds none: if probes have used up what there was, the packet is that of the next time-out.
    pub(super) fn take_repetition(&mut self, rto: Duration) -> bool {
        if self.interval(Duration::ZERO, rto).is_some() {
            self.on_probe();
            return true;
        }
        let lends = self.has(TIMED_OUT) && !self.has(PROBED) && self.left() == 0 && rto <= RTO_OF_TWO_MAX;
        if lends {
            self.on_probe();
            self.set_left(OWES);
        }
        lends
    }

    /// Records an expiry of T3-rtx.
    pub(super) const fn on_timeout(&mut self) {
        let owed = self.owes();
        if self.has(TIMED_OUT) {
            self.set_left(if owed { 0 } else { 1 });
        }
        self.0 = self.0 & !PROBED | TIMED_OUT;
        if owed {
            self.0 |= PROBED;
        }
    }

    /// Resets the budget, because new data was acknowledged.
    pub(super) fn on_acked(&mut self) {
        *self = Self::default();
    }

    /// True if a probe was sent since the latest time-out.
    pub(super) const fn has_probed(self) -> bool {
        self.has(PROBED)
    }
}
