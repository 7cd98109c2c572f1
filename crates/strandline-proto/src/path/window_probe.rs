//! Probes of a peer whose receive window is closed (RFC 9260 section 6.1 rule A; decisions 81 and 99).

#[cfg(test)]
mod tests;

use super::destination::{Exempt, Path};
use crate::config::{AssociationConfig, Recovery};
use crate::time::Time;

impl Path {
    /// Sets whether the peer has answered that it has no room for the lowest chunk. The answer ends a probe
    /// of the window.
    pub(crate) fn set_window_shut(&mut self, shut: bool) {
        self.choices.set_window_shut(shut);
        let over = self.exempt == Exempt::WindowProbed || (self.exempt == Exempt::WindowProbe && !shut);
        if over {
            self.exempt = Exempt::No;
        }
    }

    /// Handles an expiry of T3-rtx for a zero window probe while the peer still sends SACKs. The interval doubles,
    /// but it is neither an error nor congestion (section 6.1 rule A). Other data in flight does not hold the next
    /// probe back. With loss detection by time the probe is one packet, and whatever else waits for retransmission goes
    /// once that is answered.
    pub(crate) fn on_window_probe_timeout(&mut self, now: Time, config: &AssociationConfig) {
        self.stop_rtx();
        self.rto.back_off(config);
        self.probes.on_timeout();
        self.exempt = match self.recovery() {
            Recovery::Rack => Exempt::WindowProbe,
            Recovery::Rfc9260 if self.flight > 0 => Exempt::Other,
            Recovery::Rfc9260 => Exempt::No,
        };
        if self.flight > 0 {
            self.start_rtx(now);
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
        self.probes.on_window_probe();
        self.last_answer_or_probe = now;
        if self.rtx_deadline != Time::MAX {
            self.restart_rtx(now);
        }
    }
}

/// Handles packets of `lost` bytes in all that probed a closed window in vain. Returns true if the PMTU fell because of
/// that. An answer shows that a single packet has arrived, as loss detection by time sends it. With miss indications
/// everything outstanding is sent again, and the peer may answer a short packet while all longer ones are too long for
/// the path.
pub(crate) fn on_window_probes_lost(path: &mut Path, lost: u32, config: &AssociationConfig) -> bool {
    let several = path.recovery() == Recovery::Rfc9260 && lost > path.data_chunk_len_max();
    let fell = several && config.probes_mtu() && path.pmtu.on_timeout(lost as usize);
    if fell {
        path.on_mtu();
    }
    fell
}
