//! The time since which nothing was sent to an address or acknowledged there, which determines when a tail-loss probe
//! is due (RFC 8985 section 7.2).

use core::time::Duration;

use strandline_proto::time::Time;

/// The quiet period of an address.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Quiet {
    /// When anything was last sent to it or acknowledged there.
    pub(super) since: Time,
    /// `since` without the effect of a time-out of another address at this instant: a probe that is due is sent along
    /// with it.
    before: Time,
    /// The round-trip time of the address.
    pub(super) srtt: Option<Duration>,
}

impl Quiet {
    pub(super) fn ends(&mut self, now: Time) {
        (self.since, self.before) = (now, now);
    }

    pub(super) fn ends_for_another(&mut self, now: Time) {
        if self.since < now {
            self.before = self.since;
            self.since = now;
        }
    }

    /// True if two round trips have passed.
    pub(super) fn probe_is_due(&self, now: Time) -> bool {
        let last = if self.since == now { self.before } else { self.since };
        self.srtt.is_some_and(|srtt| now.since(last) >= srtt * 2)
    }
}
