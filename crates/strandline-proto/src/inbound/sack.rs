//! When to acknowledge (RFC 9260 sections 6.2 and 6.7; RFC 5681 section 4.2).

use crate::config::AssociationConfig;
use crate::number::Tsn;
use crate::time::Time;

/// Duplicates remembered for the next SACK. They are only a hint to the sender: what goes beyond is not listed.
const DUPLICATES_MAX: usize = 32;

/// Decides when a SACK is due. A SACK goes out at once for the association's first DATA, on a gap or while one is
/// filled, on a duplicate, on the I bit, when DATA had to be dropped, in the shutdown states, and when the
/// application's reading has reopened the window; else with every `sack_frequency`-th packet or after `sack_delay`.
#[derive(Debug)]
pub(super) struct SackPolicy {
    /// When the delayed SACK must go; `Time::MAX` if none waits.
    deadline: Time,
    /// Allocated by the first duplicate.
    duplicates: Option<Box<Duplicates>>,
    /// Packets with DATA since the last SACK.
    packets: u8,
    /// A SACK is due now.
    at_once: bool,
    /// The packet being received had DATA.
    data_in_packet: bool,
    /// The packet being received asks for a SACK at once.
    packet_at_once: bool,
    /// The next SACK closes the window.
    refusing: bool,
    /// The association's first DATA has been acknowledged, or is about to be.
    begun: bool,
}

#[derive(Debug)]
struct Duplicates {
    len: usize,
    tsns: [Tsn; DUPLICATES_MAX],
}

impl SackPolicy {
    pub(super) const fn new() -> Self {
        Self {
            deadline: Time::MAX,
            duplicates: None,
            packets: 0,
            at_once: false,
            data_in_packet: false,
            packet_at_once: false,
            refusing: false,
            begun: false,
        }
    }

    /// A DATA chunk arrived; `urgent` if a gap was open or the I bit is set.
    #[inline]
    pub(super) const fn on_chunk(&mut self, urgent: bool) {
        self.data_in_packet = true;
        self.packet_at_once |= urgent;
    }

    /// The chunk was a duplicate: named in the next SACK.
    pub(super) fn on_duplicate(&mut self, tsn: Tsn) {
        self.packet_at_once = true;
        let list = self
            .duplicates
            .get_or_insert_with(|| Box::new(Duplicates { len: 0, tsns: [Tsn(0); DUPLICATES_MAX] }));
        if let Some(place) = list.tsns.get_mut(list.len) {
            *place = tsn;
            list.len += 1;
        }
    }

    /// The chunk had to be dropped: the sender must learn the window (section 6.2).
    pub(super) const fn on_dropped(&mut self) {
        self.packet_at_once = true;
    }

    /// The chunk was refused for want of memory: the sender must learn to wait.
    pub(super) const fn on_refused(&mut self) {
        self.refusing = true;
    }

    pub(super) const fn is_refusing(&self) -> bool {
        self.refusing
    }

    /// The packet is done: `has_gaps` after it, `at_once` for a reason that the association knows (shutdown states).
    #[inline]
    pub(super) fn on_packet_end(
        &mut self,
        now: Time,
        has_gaps: bool,
        at_once: bool,
        config: &AssociationConfig,
    ) {
        if !self.data_in_packet {
            return;
        }
        self.packets = self.packets.saturating_add(1);
        if self.packet_at_once || has_gaps || at_once || !self.begun || self.packets >= config.sack_frequency
        {
            self.at_once = true;
        } else {
            self.deadline = self.deadline.min(now + config.sack_delay);
        }
        self.begun = true;
        self.data_in_packet = false;
        self.packet_at_once = false;
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

    pub(super) fn duplicates(&self) -> &[Tsn] {
        self.duplicates.as_ref().and_then(|list| list.tsns.get(..list.len)).unwrap_or_default()
    }

    /// A SACK was written: nothing is owed any more, the list of duplicates starts again (section 3.3.4).
    #[inline]
    pub(super) fn on_sent(&mut self) {
        self.deadline = Time::MAX;
        self.packets = 0;
        self.at_once = false;
        self.refusing = false;
        if let Some(list) = &mut self.duplicates {
            list.len = 0;
        }
    }

    pub(super) fn release_idle(&mut self) {
        if self.duplicates().is_empty() {
            self.duplicates = None;
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.duplicates.as_ref().map_or(0, |list| size_of_val(&**list))
    }
}

#[cfg(test)]
mod tests;
