//! That windows shrink: what goes again because it was lost had been sent before the latest reduction of its path's window. So
//! losses in two successive round trips make two of them, and so does a retransmission that is lost (RFC 5681 section 4.3; decision
//! 58). The packets tell what was lost and when it had been sent, the controller's numbers only when the window fell.

use strandline_proto::config::Recovery;
use strandline_proto::stats::PathStatus;
use strandline_proto::time::Time;

use super::{Events, Step};
use crate::violation::{Violation, demand};

/// A window that falls to so many hundredths, or below, has shrunk: CUBIC leaves 80 where no queue shows.
const SHRUNK_PERCENT: u64 = 82;

/// A window of so many packets cannot shrink by as much any more: the floor of RFC 9260 is four.
const FLOOR_PACKETS: u32 = 5;

/// The latest reduction.
#[derive(Debug, Default)]
pub(super) struct Shrinking {
    cwnd: u32,
    controller: &'static str,
    at: Time,
}

impl Shrinking {
    /// `delivered`: bytes acknowledged since the last look. The window may have grown by so many before it shrank.
    pub(super) fn look(&mut self, path: &PathStatus, delivered: u32, events: Events) {
        let most = (u64::from(self.cwnd) + u64::from(delivered)) * SHRUNK_PERCENT / 100;
        let small = path.cwnd <= FLOOR_PACKETS * u32::from(path.mtu);
        // What was undone counts for what it undid; a new controller begins anew.
        let anew = events.undone > 0 || self.controller != path.congestion;
        if u64::from(path.cwnd) <= most || small || anew {
            self.at = events.now;
        }
        (self.cwnd, self.controller) = (path.cwnd, path.congestion);
    }

    /// After packets were sent.
    pub(super) fn check(&self, step: &Step<'_>) -> Result<(), Violation> {
        let Some(sent_at) = step.lost else { return Ok(()) };
        // Fast Recovery of RFC 9260 is one for whatever is lost in it. BBR and Swift do not go by losses. A tail-loss probe need not
        // have been lost.
        let bound = step.config.recovery != Recovery::Rfc9260
            && !matches!(step.was.congestion, "bbr" | "swift")
            && step.events.probes == 0;
        demand(!bound || sent_at <= self.at, || {
            format!(
                "lost after it was sent at {sent_at:?}, and the window has not shrunk since {:?}: {:?}",
                self.at, step.was
            )
        })
    }
}
