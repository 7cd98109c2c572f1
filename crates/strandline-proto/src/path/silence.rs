//! Detects a silent path before T3-rtx expires, if there is another path to continue on.

use core::time::Duration;

use super::destination::Path;
use super::state::PathState;
use crate::time::Time;

impl Path {
    /// Returns when the path counts as silent: nothing was answered for `silence_max`, not even a tail-loss probe.
    /// `Time::MAX` if the path is not awaiting an answer.
    pub(crate) fn silence_deadline(&self, silence_max: Duration) -> Time {
        let asked = self.probes.has_probed() && self.flight > 0 && !self.timed_out;
        if !asked || self.state != PathState::Active || self.rtx_deadline == Time::MAX {
            return Time::MAX;
        }
        let Some(srtt) = self.rto.srtt() else { return Time::MAX };
        // T3-rtx runs since the earliest data in flight was sent or the data before it acknowledged. The RTO may have
        // changed since.
        let waits = u64::from(self.rtx_wait_us) * 1_000;
        let silent_since = Time::from_nanos(self.rtx_deadline.as_nanos().saturating_sub(waits));
        (silent_since + silence_max).max(self.last_answer_or_probe + self.probe_wait(srtt))
    }
}
