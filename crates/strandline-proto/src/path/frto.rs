//! The part of F-RTO (RFC 5682) that concerns a path after its test: the recovery of the RTO if the time-out was
//! spurious.

#[cfg(test)]
mod tests;

use super::destination::Path;
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
}
