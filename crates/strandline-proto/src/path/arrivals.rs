//! What the SACKs of one instant acknowledged, and whether they found the window full. SACKs that come in one batch, with
//! no opportunity to send between them, are one arrival, for which the flight before the first of them counts. One by
//! one, the later ones would find a window that is not full only because there was no time to fill it.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Time;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Arrivals {
    /// When the latest SACK came: the low bits of the nanoseconds, enough to tell it from another moment.
    instant: u32,
    /// When the window was full the last time: the low bits of the microseconds; 0: never since the last loss.
    full_at_us: u32,
    /// Packets that the SACKs of the instant acknowledged.
    packets: u16,
    /// The window was fully used before them.
    window_full: bool,
}

impl Arrivals {
    /// A SACK came that acknowledged so many packets. `full`: it found the window full.
    pub(super) fn on_sack(&mut self, now: Time, packets: u32, full: bool) {
        let instant = now.as_nanos() as u32;
        if instant != self.instant {
            self.instant = instant;
            self.packets = 0;
            self.window_full = false;
        }
        self.packets = self.packets.saturating_add(u16::try_from(packets).unwrap_or(u16::MAX));
        self.window_full |= full;
        if self.window_full {
            self.full_at_us = micros(now).max(1);
        }
    }

    /// The window was fully used before the SACKs of the latest instant.
    pub(super) const fn window_full(&self) -> bool {
        self.window_full
    }

    /// The window was fully used within the last round trip: an application that is a moment late with more, or packets
    /// that come apart on their way, don't make it one that sends less (as RFC 7661 section 4.3 looks at a period, not at
    /// a moment).
    pub(super) fn window_full_within(&self, now: Time, rtt: Duration) -> bool {
        let since_us = micros(now).wrapping_sub(self.full_at_us);
        self.window_full || (self.full_at_us != 0 && u128::from(since_us) <= rtt.as_micros())
    }

    /// What was acknowledged in the latest instant is being replaced, or never will be.
    pub(super) fn take_packets(&mut self) -> u16 {
        core::mem::take(&mut self.packets)
    }

    /// A loss made another window.
    pub(super) fn forget_full(&mut self) {
        self.window_full = false;
        self.full_at_us = 0;
    }
}

fn micros(now: Time) -> u32 {
    (now.as_nanos() / 1_000) as u32
}
