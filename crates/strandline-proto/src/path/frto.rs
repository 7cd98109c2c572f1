//! The part of F-RTO (RFC 5682) that concerns a path after its test: the recovery of the RTO if the time-out was
//! spurious.

#[cfg(test)]
mod tests;

use super::destination::{Exempt, Path};
use crate::config::AssociationConfig;
use crate::time::Time;

impl Path {
    /// Drops the back-off of the RTO after a spurious time-out or loss: the RTO follows from the measurements again
    /// (RFC 5682 section 4).
    pub(crate) fn forget_back_off(&mut self, now: Time, config: &AssociationConfig) {
        self.rto.forget_back_off(config);
        if self.rtx_deadline != Time::MAX {
            self.restart_rtx(now);
        }
    }

    /// Removes `bytes`, for which the peer may have had no room, from the flight because the peer's window has
    /// opened. They are sent again whatever cwnd is, which counts as a probe. T3-rtx restarts; its back-off stays
    /// until new data is acknowledged.
    pub(crate) fn on_window_opened(&mut self, now: Time, bytes: u32) {
        if bytes == 0 {
            return;
        }
        self.on_lost(bytes);
        self.exempt = Exempt::Other;
        self.probes.on_asked();
        self.quiet_since = now;
        if self.rtx_deadline != Time::MAX {
            self.restart_rtx(now);
        }
    }
}
