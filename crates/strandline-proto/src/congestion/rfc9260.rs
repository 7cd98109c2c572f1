//! Slow start, congestion avoidance and the reactions to loss of RFC 9260 section 7.2.

#[cfg(test)]
mod tests;

use strandline_wire::COMMON_HEADER_LEN;

use super::controller::{Ack, Controller};
use super::undo::Undo;
use crate::packet_sizes::{ETHERNET_MTU, IPV4_HEADER_LEN, IPV6_HEADER_LEN};
use crate::time::Time;

/// Maximum growth for one SACK in slow start, in packets (L in section 7.2.1). A SACK may grow the window by as much
/// as one SACK for every second packet would have done, up to this bound, which RFC 9406 section 4.2 recommends for
/// senders without pacing.
const L_MAX: u32 = 8;

/// The controller of RFC 9260. It counts bytes, and L exceeds 1 only for SACKs that cover many packets.
#[derive(Debug, Clone)]
pub struct Rfc9260 {
    cwnd: u32,
    ssthresh: u32,
    partial_bytes_acked: u32,
    pmdcs: u32,
    /// cwnd and ssthresh before the latest loss, kept until the loss can no longer be undone.
    before: Undo,
    /// Maximum of L, in packets.
    l_max: u32,
}

/// Bytes of DATA chunks in three full Ethernet packets, in the initial window of section 7.2.1: less the IP header and
/// the common header each.
const THREE_PACKETS_IPV4: u32 = 3 * ((ETHERNET_MTU - IPV4_HEADER_LEN) as u32 - COMMON_HEADER_LEN as u32);
const THREE_PACKETS_IPV6: u32 = 3 * ((ETHERNET_MTU - IPV6_HEADER_LEN) as u32 - COMMON_HEADER_LEN as u32);

/// Bytes of ten full Ethernet packets in the initial window of RFC 6928 section 2, and its limit in smaller packets.
const TEN_PACKETS: u32 = 14_600;
const INITIAL_PACKETS_MAX: u32 = 12;

/// Window in PMDCS below which a loss or idle time does not reduce it (sections 7.2.1 and 7.2.3), and upper
/// bound of the initial window.
const WINDOW_FLOOR: u32 = 4;

/// Returns min(4 * PMDCS, max(2 * PMDCS, three packets)) in bytes (section 7.2.1).
pub(super) fn initial_window(pmdcs: u32, ipv6: bool) -> u32 {
    let three_packets = if ipv6 { THREE_PACKETS_IPV6 } else { THREE_PACKETS_IPV4 };
    pmdcs.saturating_mul(WINDOW_FLOOR).min(pmdcs.saturating_mul(2).max(three_packets))
}

/// Returns the initial window of RFC 6928 section 2 in bytes: ten packets, fewer if packets are large. It is the size
/// of ten full Ethernet packets even while the search for the path MTU has not found that size yet: twelve packets of
/// 1,280 bytes put no more on the path.
pub(crate) fn initial_window_of_ten(pmdcs: u32) -> u32 {
    pmdcs.saturating_mul(INITIAL_PACKETS_MAX).min(pmdcs.saturating_mul(2).max(TEN_PACKETS))
}

impl Rfc9260 {
    /// Creates a controller with the initial window of section 7.2.1. `pmdcs` is in bytes.
    #[must_use]
    pub fn new(pmdcs: u32, ipv6: bool) -> Self {
        let pmdcs = pmdcs.max(1);
        let cwnd = initial_window(pmdcs, ipv6);
        Self {
            cwnd,
            ssthresh: u32::MAX,
            partial_bytes_acked: 0,
            pmdcs,
            before: Undo::default(),
            l_max: L_MAX,
        }
    }

    /// Fixes L at 1, as section 7.2.1 recommends, or allows larger values.
    pub fn set_letter(&mut self, to_the_letter: bool) {
        self.l_max = if to_the_letter { 1 } else { L_MAX };
    }

    /// Returns max(cwnd / 2, 4 * PMDCS), the ssthresh after a loss.
    fn halved(&self) -> u32 {
        (self.cwnd / 2).max(self.pmdcs.saturating_mul(WINDOW_FLOOR))
    }

    /// Slow start (section 7.2.1). The Cumulative TSN Ack Point need not advance: RFC 9260 dropped that condition of
    /// RFC 4960.
    fn slow_start(&mut self, ack: &Ack) {
        if ack.window_full && !ack.in_fast_recovery {
            self.cwnd = self.cwnd.saturating_add(ack.acked_bytes.min(self.growth_max(ack.acked_bytes)));
        }
    }

    /// Returns L * PMDCS. L is 1 after a loss, because a SACK may then cover data that was sent before the loss (RFC
    /// 3465 section 2.3).
    fn growth_max(&self, acked_bytes: u32) -> u32 {
        if self.ssthresh != u32::MAX {
            return self.pmdcs;
        }
        let sacks = acked_bytes / self.pmdcs / 2;
        self.pmdcs.saturating_mul(sacks.clamp(1, self.l_max))
    }

    /// Congestion avoidance (section 7.2.2).
    fn congestion_avoidance(&mut self, ack: &Ack) {
        self.partial_bytes_acked = self.partial_bytes_acked.saturating_add(ack.growing_bytes());
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
        if ack.ecn_echoed {
            // The window does not grow for acknowledgements that report marks (RFC 3168 section 6.1.2).
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
        self.before.remember(self.cwnd, self.ssthresh);
        self.ssthresh = self.halved();
        self.cwnd = self.ssthresh;
        self.partial_bytes_acked = 0;
    }

    fn on_timeout(&mut self, _now: Time) {
        self.before.remember(self.cwnd, self.ssthresh);
        self.ssthresh = self.halved();
        self.cwnd = self.pmdcs;
        self.partial_bytes_acked = 0;
    }

    fn on_certain(&mut self) {
        self.before.forget();
    }

    fn on_undo(&mut self) {
        (self.cwnd, self.ssthresh) = self.before.restored(self.cwnd, self.ssthresh);
    }

    fn on_ecn(&mut self, now: Time) {
        let before = self.cwnd;
        self.on_fast_retransmit(now);
        self.cwnd = self.cwnd.min(before);
        self.before.forget();
    }

    fn on_idle(&mut self, rto_periods: u32) {
        // The formula of section 7.2.1 would raise a window below 4 PMDCS. A time-out leaves such a window, and only
        // one packet may be sent until an acknowledgement arrives, however long that takes. Here idle time only
        // lowers the window.
        let floor = self.pmdcs.saturating_mul(WINDOW_FLOOR);
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
