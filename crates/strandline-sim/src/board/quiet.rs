//! Since when nothing was sent to an address or acknowledged of what went there: a tail-loss probe is due by that (RFC 8985 section 7.2).

use core::time::Duration;

use strandline_proto::time::Time;

/// Since when an address is quiet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Quiet {
    /// When anything was last sent to it or acknowledged of what went there.
    pub(super) since: Time,
    /// `since` without what a time-out of another address brings at this moment: a probe that is due goes along with that.
    before: Time,
    /// Its round-trip time.
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

    /// Two round trips have passed.
    pub(super) fn probe_is_due(&self, now: Time) -> bool {
        let last = if self.since == now { self.before } else { self.since };
        self.srtt.is_some_and(|srtt| now.since(last) >= srtt * 2)
    }
}
