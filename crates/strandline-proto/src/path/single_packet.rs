//! The wait before a tail-loss probe for a single packet in flight (decision 82). The peer may delay its
//! acknowledgement unless the packet has the I bit.

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::destination::{PROBE_SLACK, Path, SACK_DELAY};
use crate::time::Time;

impl Path {
    /// Returns how long to wait before a tail-loss probe. The acknowledgement of a single packet may be delayed
    /// unless it fills a gap or has the I bit; a probe has it.
    pub(super) fn probe_wait(&self, srtt: Duration) -> Duration {
        let late = self.may_be_delayed() && !self.is_heeded();
        srtt + srtt + if late { PROBE_SLACK + SACK_DELAY } else { PROBE_SLACK }
    }

    /// True if the flight may be one packet that fills no gap, and no probe has asked for its acknowledgement.
    fn may_be_delayed(&self) -> bool {
        !self.probes.has_probed() && !self.choices.gap_seen() && self.flight <= self.data_chunk_len_max()
    }

    /// True if the latest packet has the I bit (RFC 7053), and nothing shows that the peer ignores it.
    const fn is_heeded(&self) -> bool {
        self.choices.immediate() && !self.choices.unheeded()
    }

    /// Records whether the I bit makes the tail-loss probe that is about to be sent come sooner. Only the first probe
    /// of a flight counts, since the peer may report the duplicates of a later one late. Called before the
    /// retransmitted data leaves the flight.
    pub(super) fn note_probe(&mut self) {
        if self.probes.is_first() {
            self.choices.set_hurried(self.may_be_delayed() && self.is_heeded());
        }
    }

    /// Handles a spurious tail-loss probe: the peer got a second copy of its data. If the I bit had made the probe
    /// come sooner, it no longer does.
    pub(crate) fn on_needless_probe(&mut self) {
        if self.choices.hurried() {
            self.choices.set_unheeded(true);
        }
    }

    /// Records that a packet with data is about to be sent. Called before it counts as in flight.
    pub(super) fn note_immediate(&mut self, first_transmission: bool, immediate: bool) {
        self.choices.set_immediate(immediate, immediate & first_transmission & (self.flight == 0));
    }

    /// Handles a received packet with a SACK: if the answer came sooner than a probe would have been sent, the peer
    /// does heed the I bit. `bare` is true if the packet contained no data, which can make an acknowledgement come
    /// sooner.
    pub(crate) fn on_answered(&mut self, now: Time, bare: bool) {
        if !self.choices.immediate_alone() || self.flight > 0 {
            return;
        }
        self.choices.end_immediate_alone();
        let in_time =
            self.rto.srtt().is_some_and(|srtt| now.since(self.last_sent) < srtt + srtt + PROBE_SLACK);
        if bare && in_time {
            self.choices.set_unheeded(false);
        }
    }
}
