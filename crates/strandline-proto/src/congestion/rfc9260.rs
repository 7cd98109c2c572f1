//! Slow start, congestion avoidance and the reactions to loss of RFC 9260 section 7.2.

#[cfg(test)]
mod tests;

use super::controller::{Ack, Controller};
use crate::time::Time;

/// What one SACK may add in slow start is L packets: as many as SACKs for every second packet would have come in its
/// place, but not more than this, which RFC 9406 section 4.2 takes for senders that don't pace.
const L_MAX: u32 = 8;

/// The controller of RFC 9260: byte counting, with L above 1 only for SACKs that cover many packets.
#[derive(Debug, Clone)]
pub struct Rfc9260 {
    cwnd: u32,
    ssthresh: u32,
    partial_bytes_acked: u32,
    pmdcs: u32,
    /// cwnd and ssthresh before the latest loss, until that is undone.
    before: Option<(u32, u32)>,
    /// L, at most.
    l_max: u32,
}

/// min(4 * PMDCS, max(2 * PMDCS, three packets)) of section 7.2.1.
pub(super) fn initial_window(pmdcs: u32, ipv6: bool) -> u32 {
    // Three full packets on Ethernet, which differ by the IP header.
    let three_packets = if ipv6 { 4344 } else { 4404 };
    pmdcs.saturating_mul(4).min(pmdcs.saturating_mul(2).max(three_packets))
}

/// The ten packets that RFC 6928 section 2 lets the others begin with; bounded for larger packets. In bytes they are ten
/// full ones of Ethernet also while the search for the path MTU still has to find that size: at 1,280 bytes twelve packets
/// put no more on the path.
pub(crate) fn initial_window_of_ten(pmdcs: u32) -> u32 {
    const FULL_PACKETS: u32 = 14_600;
    pmdcs.saturating_mul(12).min(pmdcs.saturating_mul(2).max(FULL_PACKETS))
}

impl Rfc9260 {
    /// The initial window of section 7.2.1. `pmdcs` in bytes.
    #[must_use]
    pub fn new(pmdcs: u32, ipv6: bool) -> Self {
        let pmdcs = pmdcs.max(1);
        let cwnd = initial_window(pmdcs, ipv6);
        Self { cwnd, ssthresh: u32::MAX, partial_bytes_acked: 0, pmdcs, before: None, l_max: L_MAX }
    }

    /// L is 1, as section 7.2.1 says that it should be, or may be more.
    pub fn set_letter(&mut self, to_the_letter: bool) {
        self.l_max = if to_the_letter { 1 } else { L_MAX };
    }

    /// max(cwnd / 2, 4 * PMDCS), the threshold after a loss.
    fn halved(&self) -> u32 {
        (self.cwnd / 2).max(self.pmdcs.saturating_mul(4))
    }

    /// Section 7.2.1. The Cumulative TSN Ack Point need not advance: RFC 9260 dropped that condition of RFC 4960.
    fn slow_start(&mut self, ack: &Ack) {
        if ack.window_full && !ack.in_fast_recovery {
            self.cwnd = self.cwnd.saturating_add(ack.acked_bytes.min(self.growth_max(ack.acked_bytes)));
        }
    }

    /// L times PMDCS. After a loss L is 1: what a SACK covers then may have been sent before it (RFC 3465 section 2.3).
    fn growth_max(&self, acked_bytes: u32) -> u32 {
        if self.ssthresh != u32::MAX {
            return self.pmdcs;
        }
        let sacks = acked_bytes / self.pmdcs / 2;
        self.pmdcs.saturating_mul(sacks.clamp(1, self.l_max))
    }

    /// Section 7.2.2.
    fn congestion_avoidance(&mut self, ack: &Ack) {
        self.partial_bytes_acked = self.partial_bytes_acked.saturating_add(ack.acked_bytes);
        if self.partial_bytes_acked < self.cwnd {
            return;
        }
        if ack.window_full {
            self.partial_bytes_acked -= self.cwnd;
            self.cwnd = self.cwnd.saturating_add(self.pmdcs);
        } else {
            self.partial_bytes_acked = self.cwnd;
        }
    }
}

impl Controller for Rfc9260 {
    fn window(&self) -> u32 {
        self.cwnd
    }

    fn slow_start_threshold(&self) -> u32 {
        self.ssthresh
    }

    fn on_ack(&mut self, ack: &Ack) {
        if ack.marked {
            // The window does not grow by what tells of marks (RFC 3168 section 6.1.2).
        } else if self.cwnd <= self.ssthresh {
            self.slow_start(ack);
        } else {
            self.congestion_avoidance(ack);
        }
        if ack.all_acked {
            self.partial_bytes_acked = 0;
        }
    }

    fn on_fast_retransmit(&mut self, _now: Time) {
        self.before.get_or_insert((self.cwnd, self.ssthresh));
        self.ssthresh = self.halved();
        self.cwnd = self.ssthresh;
        self.partial_bytes_acked = 0;
    }

    fn on_timeout(&mut self, _now: Time) {
        // After several in a row, what was before the first.
        self.before.get_or_insert((self.cwnd, self.ssthresh));
        self.ssthresh = self.halved();
        self.cwnd = self.pmdcs;
        self.partial_bytes_acked = 0;
    }

    fn on_certain(&mut self) {
        self.before = None;
    }

    fn on_undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.before.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    fn on_ecn(&mut self, now: Time) {
        let before = self.cwnd;
        self.on_fast_retransmit(now);
        self.cwnd = self.cwnd.min(before);
        self.before = None;
    }

    fn on_idle(&mut self, rto_periods: u32) {
        // The formula would lift a window below 4 PMDCS, which a time-out left behind: after it one packet goes until
        // an acknowledgement comes, however long that takes. Idle time only ever lowers the window here.
        let floor = self.pmdcs.saturating_mul(4);
        if rto_periods == 0 || self.cwnd <= floor {
            return;
        }
        self.ssthresh = self.cwnd;
        self.cwnd = self.cwnd.checked_shr(rto_periods).unwrap_or(0).max(floor);
        self.partial_bytes_acked = 0;
    }

    fn on_mtu(&mut self, pmdcs: u32) {
        self.pmdcs = pmdcs.max(1);
        self.cwnd = self.cwnd.max(self.pmdcs);
    }
}
