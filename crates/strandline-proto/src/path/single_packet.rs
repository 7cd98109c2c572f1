//! How long a path waits for the answer to a packet that is alone in flight, before a tail-loss probe goes (decision 82): the peer may
//! delay its acknowledgement, unless it was asked not to.

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::destination::{PROBE_SLACK, Path, SACK_DELAY};
use crate::time::Time;

impl Path {
    /// A single packet may be acknowledged late unless it fills a gap or asks (I bit); a probe asks.
    pub(super) fn probe_wait(&self, srtt: Duration) -> Duration {
        let late = self.may_be_delayed() && !self.is_heeded();
        srtt + srtt + if late { PROBE_SLACK + SACK_DELAY } else { PROBE_SLACK }
    }

    /// What is in flight may be one packet, which fills no gap, and no probe has asked for its acknowledgement.
    fn may_be_delayed(&self) -> bool {
        !self.probes.has_asked() && !self.choices.gap_seen() && self.flight <= self.data_chunk_len_max()
    }

    /// The latest packet asked for its acknowledgement (RFC 7053), and nothing shows that the peer doesn't heed that.
    const fn is_heeded(&self) -> bool {
        self.choices.asked() && !self.choices.unheeded()
    }

    /// A tail-loss probe is to go: is it sooner for what the packet before it asked? The first one of a flight tells; later ones change
    /// nothing, since the peer may report late what came twice. To be called before what it sends again leaves the flight.
    pub(super) fn note_probe(&mut self) {
        if self.probes.is_first() {
            self.choices.set_hurried(self.may_be_delayed() && self.is_heeded());
        }
    }

    /// The peer got a second copy of what a tail-loss probe sent again. If that went sooner because the packet had asked, no other does.
    pub(crate) fn on_needless_probe(&mut self) {
        if self.choices.hurried() {
            self.choices.set_unheeded(true);
        }
    }

    /// A packet with data is to go. To be called before that is in flight.
    pub(super) fn note_asked(&mut self, first_transmission: bool, asks: bool) {
        self.choices.set_asked(asks, asks & first_transmission & (self.flight == 0));
    }

    /// A packet with a SACK was taken in: does it show that the peer heeds the I bit after all, in less time than a probe waits?
    /// `bare`: it brought no data, with which an acknowledgement may go sooner than by itself.
    pub(crate) fn on_answered(&mut self, now: Time, bare: bool) {
        if !self.choices.asked_alone() || self.flight > 0 {
            return;
        }
        self.choices.end_asked_alone();
        let in_time =
            self.rto.srtt().is_some_and(|srtt| now.since(self.last_sent) < srtt + srtt + PROBE_SLACK);
        if bare && in_time {
            self.choices.set_unheeded(false);
        }
    }
}
