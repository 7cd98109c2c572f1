//! Tail-loss probes of a path: when one is due and what it may contain (RFC 8985 section 7.2).
//! [`Probes`](super::tlp_budget::Probes) limits their number.

use super::destination::{Exempt, Path};
use super::frto_packets::FrtoPackets;
use crate::config::Recovery;
use crate::time::Time;

/// Puts a tail-loss probe of a path off, because no packet may be sent.
pub(crate) fn defer_probe(path: &mut Path, now: Time) {
    path.last_answer_or_probe = now;
}

/// Takes a packet from the budget of probes for data that timed out, since the peer repeats its COOKIE ECHO. Returns
/// false if nothing timed out, or the budget is used up.
pub(crate) fn take_repetition(path: &mut Path) -> bool {
    path.timed_out && path.probes.take_repetition(path.rto.rto())
}

impl Path {
    /// Returns when a tail-loss probe is due: two round trips after anything was sent or acknowledged (RFC 8985
    /// section 7.2). Unlike there, a second one may follow ([`Probes`](super::tlp_budget::Probes)), and recovery does
    /// not exclude probes.
    pub(super) fn probe_deadline(&self) -> Time {
        // Without T3-rtx the association is being set up, and the timer of the set-up applies.
        let none = self.flight == 0 || self.rtx_deadline == Time::MAX || self.choices.window_shut();
        if none { Time::MAX } else { self.probe_time() }
    }

    /// Returns when the next probe may be sent, whatever its purpose.
    fn probe_time(&self) -> Time {
        let Some(srtt) = self.rto.srtt().filter(|_| self.recovery() == Recovery::Rack) else {
            return Time::MAX;
        };
        let interval = self.probes.interval(self.probe_wait(srtt), self.rto.rto());
        interval.map_or(Time::MAX, |interval| self.last_sent.max(self.last_answer_or_probe) + interval)
    }

    /// True if a probe of a newly opened peer window may be sent now. The first one needs no wait.
    pub(crate) fn may_probe_opened_window(&self, now: Time) -> bool {
        let at = self.probe_time();
        at <= now || (at != Time::MAX && self.probes.is_first())
    }

    pub(crate) fn probe_due(&self, now: Time) -> bool {
        self.probe_deadline() <= now
    }

    /// Allows the next packet as a tail-loss probe regardless of the window. T3-rtx keeps running.
    pub(crate) fn on_probe(&mut self, now: Time) {
        self.note_probe();
        self.probes.on_probe();
        self.last_answer_or_probe = now;
        self.exempt = Exempt::Probe;
        self.frto_packets = FrtoPackets::NO;
    }

    /// Withdraws the exemption of [`on_probe`](Self::on_probe), because the probe was sent on another path.
    pub(crate) fn on_probe_moved(&mut self) {
        self.exempt = Exempt::No;
    }

    /// True if a tail-loss probe may contain new data: it is the first one, and the flight is not far beyond the
    /// window.
    pub(crate) fn may_probe_with_new(&self) -> bool {
        self.probes.is_first() && self.flight < self.window().saturating_add(self.data_chunk_len_max())
    }

    /// True if the next packet is a tail-loss probe, which may contain new data.
    pub(crate) fn sends_probe(&self) -> bool {
        self.exempt == Exempt::Probe
    }

    /// True if the probe may still contain new data. Its retransmissions may have been sent on another path, and the
    /// window may be full.
    pub(crate) fn probes_with_new(&self) -> bool {
        self.sends_probe() && self.flight < self.window().saturating_add(self.data_chunk_len_max())
    }
}
