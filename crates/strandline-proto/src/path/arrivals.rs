//! Tracks what the SACKs of one instant acknowledged, and whether they found the window full. SACKs that arrive in
//! one batch, with no opportunity to send between them, count as one arrival with the flight before the first of
//! them. Counted one by one, the later SACKs would find a window that is not full only because there was no time to
//! fill it.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Time;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Arrivals {
    /// Arrival time of the latest SACK: the low bits of the nanoseconds, enough to tell two instants apart.
    instant: u32,
    /// When the window was last full: the low bits of the microseconds; 0 if never since the last loss.
    full_at_us: u32,
    /// Number of packets that the SACKs of this instant acknowledged.
    packets: u16,
    /// True if the window was fully used before these SACKs.
    window_full: bool,
}

impl Arrivals {
    /// Records a SACK that acknowledged `packets` packets. `full` is true if it found the window full.
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

    /// True if the window was fully used before the SACKs of the latest instant.
    pub(super) const fn window_full(&self) -> bool {
        self.window_full
    }

    /// True if the window was fully used within the last round trip. An application that supplies data a little late,
    /// or packets that spread out on the way, do not make the sender application-limited (RFC 7661 section 4.3 also
    /// considers a period instead of a moment).
    pub(super) fn window_full_within(&self, now: Time, rtt: Duration) -> bool {
        let since_us = micros(now).wrapping_sub(self.full_at_us);
        self.window_full || (self.full_at_us != 0 && u128::from(since_us) <= rtt.as_micros())
    }

    /// Returns the number of packets acknowledged in the latest instant, and resets it.
    pub(super) fn take_packets(&mut self) -> u16 {
        core::mem::take(&mut self.packets)
    }

    /// Forgets that the window was full, because a loss changed the window.
    pub(super) fn forget_full(&mut self) {
        self.window_full = false;
        self.full_at_us = 0;
    }
}

fn micros(now: Time) -> u32 {
    (now.as_nanos() / 1_000) as u32
}
