//! How many tail-loss probes a path sends while nothing is acknowledged, and how far apart they are (decision 23 says when the first
//! one goes, the decision on the probe budget how many follow).
//!
//! Two probes may go for a flight. The first time-out adds none, each later one allows one more, and what is not used is not saved up:
//! for n packets that RFC 9260 sends to a silent peer there are at most n probes, from the second packet on. Each interval is twice as
//! long as the one before it, across time-outs. Only an acknowledgement of something new starts anew.

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::destination::{Exempt, Path};
use crate::config::Recovery;
use crate::time::Time;

/// Probes for a flight.
const FOR_A_FLIGHT: u8 = 2;

/// With a longer RTO one probe goes before T3-rtx expires: RFC 9260 sends a packet or two in a minute then.
const RTO_OF_TWO_MAX: Duration = Duration::from_secs(30);

/// The interval grows no further after so many probes.
const DOUBLINGS_MAX: u8 = 15;

/// Bits of [`Probes`]: how many went, how many may go before T3-rtx expires, and two flags.
const SENT: u8 = 0x0f;
const LEFT_SHIFT: u8 = 4;
const LEFT: u8 = 3 << LEFT_SHIFT;
const ASKED: u8 = 1 << 6;
const TIMED_OUT: u8 = 1 << 7;

/// The probes of one path since something new was acknowledged on it: one byte, as there may be millions.
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
        (self.0 & LEFT) >> LEFT_SHIFT
    }

    const fn set_left(&mut self, left: u8) {
        self.0 = self.0 & !LEFT | left << LEFT_SHIFT;
    }

    /// No probe went since something new was acknowledged.
    pub(super) const fn is_first(self) -> bool {
        self.sent() == 0
    }

    /// How long the next probe waits, if one may go. `first`: what the first one of a flight waits.
    pub(super) fn interval(self, first: Duration, rto: Duration) -> Option<Duration> {
        let spared = u8::from(rto > RTO_OF_TWO_MAX && !self.has(TIMED_OUT));
        (self.left() > spared).then(|| first.saturating_mul(1 << self.sent()))
    }

    /// A probe is to go.
    pub(super) const fn on_probe(&mut self) {
        self.on_asked();
        self.0 |= ASKED;
    }

    /// A packet that asks whether the peer's window has room counts as a probe.
    pub(super) const fn on_asked(&mut self) {
        if self.sent() < DOUBLINGS_MAX {
            self.0 += 1;
        }
        self.set_left(self.left().saturating_sub(1));
    }

    /// T3-rtx expired.
    pub(super) const fn on_timeout(&mut self) {
        if self.has(TIMED_OUT) {
            self.set_left(1);
        }
        self.0 = self.0 & !ASKED | TIMED_OUT;
    }

    /// Something new was acknowledged.
    pub(super) fn on_acked(&mut self) {
        *self = Self::default();
    }

    /// A probe went since the latest time-out.
    pub(super) const fn has_asked(self) -> bool {
        self.has(ASKED)
    }
}

impl Path {
    /// When a tail-loss probe is due (RFC 8985 section 7.2): two round trips after anything was sent or acknowledged. A second one
    /// follows unlike there ([`Probes`]), and recovery does not exclude it.
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
