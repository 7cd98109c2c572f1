//! What a path does for F-RTO (RFC 5682): packets of new data that ask whether a time-out was needless, and the end of its
//! consequences if it was.

#[cfg(test)]
mod tests;

use super::destination::{Exempt, Path};
use crate::config::AssociationConfig;
use crate::time::Time;

impl Path {
    /// So many packets of new data may go whatever the window (RFC 5682 step 2b).
    pub(crate) fn set_asking(&mut self, packets: u8) {
        self.asking = packets;
    }

    /// A packet of new data may go whatever the window.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking > 0
    }

    /// A time-out was needless, or a loss was none: the RTO is what measurements say (RFC 5682 section 4).
    pub(crate) fn forget_back_off(&mut self, now: Time, config: &AssociationConfig) {
        self.rto.forget_back_off(config);
        if self.rtx_deadline != Time::MAX {
            self.restart_rtx(now);
        }
    }

    /// The peer's window has opened, and `bytes` that it may have had no room for leave the flight to go again, whatever cwnd. That counts
    /// as a probe. T3-rtx waits for the answer; its back-off stays until something new is acknowledged.
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
