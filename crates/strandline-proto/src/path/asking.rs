//! The part of F-RTO (RFC 5682) that concerns a path: new data that tests whether a time-out was spurious, and the
//! recovery of the RTO if it was.

#[cfg(test)]
mod tests;

use super::destination::{Exempt, Path};
use crate::config::AssociationConfig;
use crate::time::Time;

impl Path {
    /// Allows `packets` packets of new data beyond the window (RFC 5682 step 2b).
    pub(crate) fn set_asking(&mut self, packets: u8) {
        self.asking = packets;
    }

    /// True if a packet of new data may be sent beyond the window.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking > 0
    }

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
