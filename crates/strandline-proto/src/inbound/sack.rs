//! When to acknowledge (RFC 9260 sections 6.2 and 6.7; RFC 5681 section 4.2).

use core::time::Duration;

use crate::time::Time;

/// Packets in a row without trouble from which on it is worth knowing how data comes.
const RUN_MIN: u8 = 64;

/// Decides when a SACK is due. A SACK goes out at once for the association's first DATA, on a gap or while one is
/// filled, on a duplicate, on the I bit, when DATA had to be dropped, in the shutdown states, and when the
/// application's reading has reopened the window; else with as many packets as it is told, or once those have waited long enough.
#[derive(Debug)]
pub(super) struct SackPolicy {
    /// When the delayed SACK must go; `Time::MAX` if none waits.
    deadline: Time,
    /// Packets with DATA since the last SACK.
    packets: u8,
    /// A SACK is due now.
    at_once: bool,
    /// The packet being received had DATA.
    data_in_packet: bool,
    /// The packet being received asks for a SACK at once.
    packet_at_once: bool,
    /// Something was missing before the packet being received, it came twice, or had to be dropped.
    packet_trouble: bool,
    /// Packets since there was trouble or a pause, as far as a byte counts.
    run: u8,
    /// The next SACK closes the window.
    refusing: bool,
    /// The association's first DATA has been acknowledged, or is about to be.
    begun: bool,
}

impl SackPolicy {
    pub(super) const fn new() -> Self {
        Self {
            deadline: Time::MAX,
            packets: 0,
            at_once: false,
            data_in_packet: false,
            packet_at_once: false,
            packet_trouble: false,
            run: 0,
            refusing: false,
            begun: false,
        }
    }

    /// A DATA chunk arrived; `immediate`: it has the I bit.
    #[inline]
    pub(super) const fn on_chunk(&mut self, immediate: bool) {
        self.data_in_packet = true;
        self.packet_at_once |= immediate;
    }

    /// Something is missing before the chunk, it came twice, or it had to be dropped: the sender must learn of it
    /// (sections 6.2 and 6.7).
    pub(super) const fn on_trouble(&mut self) {
        self.packet_trouble = true;
    }

    /// The chunk was refused for want of memory: the sender must learn to wait.
    pub(super) const fn on_refused(&mut self) {
        self.refusing = true;
    }

    pub(super) const fn is_refusing(&self) -> bool {
        self.refusing
    }

    /// The packet being received has DATA.
    #[inline]
    pub(super) const fn has_data(&self) -> bool {
        self.data_in_packet
    }

    /// How the packet that ends came, `has_gaps` after it.
    #[inline]
    pub(super) const fn run(&mut self, has_gaps: bool) -> Run {
        if has_gaps || self.packet_trouble {
            self.packet_trouble = true;
            self.run = 0;
            return Run::Broken;
        }
        self.run = self.run.saturating_add(1);
        if self.run < RUN_MIN { Run::Short } else { Run::Long }
    }

    /// So much is missing that the packet adds little: its acknowledgement may wait for others.
    #[inline]
    pub(super) const fn bear_trouble(&mut self) {
        self.packet_trouble = false;
    }

    /// The packet is done; one acknowledgement is for `every` packets or after `delay`. `at_once` for a reason that the
    /// association knows (shutdown states).
    #[inline]
    pub(super) fn on_packet_end(
        &mut self,
        now: Time,
        at_once: bool,
        every: u8,
        delay: impl FnOnce() -> Duration,
    ) {
        self.packets = self.packets.saturating_add(1);
        if self.packet_at_once || self.packet_trouble || at_once || !self.begun || self.packets >= every {
            self.at_once = true;
        } else if self.deadline == Time::MAX {
            self.deadline = now + delay();
        }
        self.begun = true;
        self.data_in_packet = false;
        self.packet_at_once = false;
        self.packet_trouble = false;
    }

    /// The window has reopened: the sender may be waiting for it.
    pub(super) const fn request(&mut self) {
        self.at_once = true;
    }

    #[inline]
    pub(super) fn due(&self, now: Time) -> bool {
        self.at_once || self.deadline <= now
    }

    pub(super) const fn deadline(&self) -> Time {
        self.deadline
    }

    /// Is anything not acknowledged yet, so that a SACK is worth its bytes in a packet that goes anyway?
    #[inline]
    pub(super) const fn pending(&self) -> bool {
        self.at_once || self.packets > 0
    }

    /// A SACK was written: nothing is owed any more. True if it waited for further packets until its time was over.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Time) -> bool {
        let waited = !self.at_once && self.deadline <= now;
        self.deadline = Time::MAX;
        self.packets = 0;
        self.at_once = false;
        self.refusing = false;
        waited
    }

    /// Nothing came for a while.
    pub(super) const fn release_idle(&mut self) {
        self.run = 0;
    }
}

/// How packets came lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// Something is missing, came twice, or was dropped.
    Broken,
    /// In order, but not many since there was trouble or a pause.
    Short,
    /// In order, for long enough to be a flow.
    Long,
}

#[cfg(test)]
mod tests;
