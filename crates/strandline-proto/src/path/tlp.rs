//! Tail-loss probes of a path: when one is due and what it may hold (RFC 8985 section 7.2). [`Probes`](super::tlp_budget::Probes) says how
//! many may go.

use super::destination::{Exempt, Path};
use crate::config::Recovery;
use crate::time::Time;

impl Path {
    /// When a tail-loss probe is due (RFC 8985 section 7.2): two round trips after anything was sent or acknowledged. A second one
    /// follows unlike there ([`Probes`](super::tlp_budget::Probes)), and recovery does not exclude it.
    pub(super) fn probe_deadline(&self) -> Time {
        // Without T3-rtx the set-up is under way, whose own timer has to bring the answer.
        let none = self.flight == 0 || self.rtx_deadline == Time::MAX || self.choices.window_shut();
        if none { Time::MAX } else { self.probe_time() }
    }

    /// When the next probe may go, whatever it asks about.
    fn probe_time(&self) -> Time {
        let Some(srtt) = self.rto.srtt().filter(|_| self.recovery() == Recovery::Rack) else {
            return Time::MAX;
        };
        let interval = self.probes.interval(self.probe_wait(srtt), self.rto.rto());
        interval.map_or(Time::MAX, |interval| self.last_sent.max(self.quiet_since) + interval)
    }

    /// The peer's window has opened: what it may have had no room for may go now to ask. The first time this needs no waiting.
    pub(crate) fn may_ask_opened(&self, now: Time) -> bool {
        let at = self.probe_time();
        at <= now || (at != Time::MAX && self.probes.is_first())
    }

    /// The peer has answered that it has no room for the lowest chunk, or it has some again.
    pub(crate) fn set_window_shut(&mut self, shut: bool) {
        self.choices.set_window_shut(shut);
    }

    pub(crate) fn probe_due(&self, now: Time) -> bool {
        self.probe_deadline() <= now
    }

    /// A tail-loss probe may go: the next packet, whatever the window. T3-rtx goes on as it was.
    pub(crate) fn on_probe(&mut self, now: Time) {
        self.note_probe();
        self.probes.on_probe();
        self.quiet_since = now;
        self.exempt = Exempt::Probe;
        self.asking = 0;
    }

    /// The probe went on another path: nothing more may go on this one for it.
    pub(crate) fn on_probe_moved(&mut self) {
        self.exempt = Exempt::No;
    }

    /// A tail-loss probe may be new data: the first may, and it does not go far beyond the window.
    pub(crate) fn may_probe_with_new(&self) -> bool {
        self.probes.is_first() && self.flight < self.window().saturating_add(self.data_chunk_len_max())
    }

    /// The next packet is a tail-loss probe: it may hold new data, too.
    pub(crate) fn sends_probe(&self) -> bool {
        self.exempt == Exempt::Probe
    }

    /// It may be new data at present: what was to be sent again may have taken another path, and the window may be full.
    pub(crate) fn probes_with_new(&self) -> bool {
        self.sends_probe() && self.flight < self.window().saturating_add(self.data_chunk_len_max())
    }
}
