//! When to acknowledge (RFC 9260 sections 6.2 and 6.7; RFC 5681 section 4.2).

use core::time::Duration;

use crate::time::Time;

/// Number of packets in a row without trouble from which on the flow is measured.
const RUN_MIN: u8 = 64;

/// Decides when a SACK is due. A SACK is sent at once for the association's first DATA, for a gap or while one is
/// filled, for a duplicate, for the I bit, when DATA had to be dropped, in the shutdown states, and when reading has
/// reopened the window. Otherwise it covers a given number of packets, or those that have waited long enough.
#[derive(Debug)]
pub(super) struct SackPolicy {
    /// When the delayed SACK must be sent; `Time::MAX` if none is delayed.
    deadline: Time,
    /// Number of packets with DATA since the last SACK.
    packets: u8,
    /// True if a SACK is due now.
    at_once: bool,
    /// True if the packet being received had DATA.
    data_in_packet: bool,
    /// True if the packet being received asks for an immediate SACK.
    packet_at_once: bool,
    /// True if something was missing before the packet being received, or it was a duplicate or had to be dropped.
    packet_trouble: bool,
    /// Number of packets since the last trouble or pause, saturating.
    run: u8,
    /// True if the next SACK closes the window.
    refusing: bool,
    /// True if the association's first DATA has been acknowledged, or is about to be.
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

    /// Records a DATA chunk. `immediate` is true if it has the I bit.
    #[inline]
    pub(super) const fn on_chunk(&mut self, immediate: bool) {
        self.data_in_packet = true;
        self.packet_at_once |= immediate;
    }

    /// Records that something is missing before the chunk, or that it was a duplicate or had to be dropped. The
    /// sender must be told (sections 6.2 and 6.7).
    pub(super) const fn on_irregular(&mut self) {
        self.packet_trouble = true;
    }

    /// Records that the chunk was refused for lack of memory. The sender must be told to wait.
    pub(super) const fn on_refused(&mut self) {
        self.refusing = true;
    }

    pub(super) const fn is_refusing(&self) -> bool {
        self.refusing
    }

    /// Returns the number of packets with DATA since the last SACK.
    #[inline]
    pub(super) const fn packets(&self) -> u8 {
        self.packets
    }

    /// True if the packet being received has DATA.
    #[inline]
    pub(super) const fn has_data(&self) -> bool {
        self.data_in_packet
    }

    /// Classifies the packet that ends. `has_gaps` is the state after it.
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

    /// Lets the acknowledgement of a packet wait for others, because so much is missing that the packet adds little.
    #[inline]
    pub(super) const fn delay_despite_gap(&mut self) {
        self.packet_trouble = false;
    }

    /// Ends a packet. One acknowledgement covers `every` packets, or is sent after `delay`. `at_once` is true for a
    /// reason that the association knows (shutdown states).
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

    /// Requests a SACK because the window has reopened, and the sender may be waiting for it.
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

    /// True if anything is not acknowledged yet, so that a SACK is worth its bytes in a packet that is sent anyway.
    #[inline]
    pub(super) const fn pending(&self) -> bool {
        self.at_once || self.packets > 0
    }

    /// Records that a SACK was written. Returns true if it waited in vain for further packets.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Time) -> bool {
        let waited = !self.at_once && self.deadline <= now;
        self.deadline = Time::MAX;
        self.packets = 0;
        self.at_once = false;
        self.refusing = false;
        waited
    }

    /// Resets the run of packets, because nothing arrived for a while.
    pub(super) const fn release_idle(&mut self) {
        self.run = 0;
    }
}

/// How packets arrived recently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// Something is missing, was a duplicate, or was dropped.
    Broken,
    /// In order, but not many since the last trouble or pause.
    Short,
    /// In order, for long enough to be a flow.
    Long,
}

#[cfg(test)]
mod tests;
