//! The interface between a path and its congestion controller.

use core::fmt::Debug;
use core::time::Duration;

use crate::time::Time;

/// The data that one SACK acknowledged on one path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ack {
    /// Arrival time of the SACK.
    pub now: Time,
    /// Bytes newly acknowledged, cumulatively or by gap blocks. DATA chunks count with header and padding (section
    /// 7.2).
    pub acked_bytes: u32,
    /// Bytes outstanding on the path before the SACK arrived, counted as in `acked_bytes`.
    pub flight_before: u32,
    /// True if the congestion window was fully used before the SACK arrived, that is, if `flight_before` reached it.
    /// SACKs that arrive together count as one arrival, so that handling them in a batch does not reduce growth.
    pub window_full: bool,
    /// True if the Cumulative TSN Ack Point advanced.
    pub cumulative_advanced: bool,
    /// True if the association is in Fast Recovery (section 7.2.4).
    pub in_fast_recovery: bool,
    /// True if nothing is outstanding on the path any more.
    pub all_acked: bool,
    /// The round-trip time that the SACK measured; at most one in each round trip.
    pub rtt: Option<Duration>,
    /// The round-trip time of the latest acknowledged chunk that was sent only once.
    pub latest_rtt: Option<Duration>,
    /// True if the chunk of `latest_rtt` may have arrived long before, because earlier SACKs had no room to report
    /// it. `latest_rtt` then tells when the chunk was sent, but is no measure of delay.
    pub latest_is_late: bool,
    /// True if the peer reports that the network marked the acknowledged data (the SACK came with an ECNE chunk).
    pub ecn_echoed: bool,
    /// Share of its growth in congestion avoidance that the window may take, above 0 and at most 1: less if
    /// several paths of the association are coupled (RFC 6356).
    pub share: f32,
}

impl Ack {
    /// Returns the acknowledged bytes that the window may grow by in congestion avoidance.
    pub(super) fn growing_bytes(&self) -> u32 {
        if self.share < 1.0 {
            (f64::from(self.acked_bytes) * f64::from(self.share)) as u32
        } else {
            self.acked_bytes
        }
    }

    /// The current delay of the path, as the latest acknowledged chunk shows it.
    pub(super) fn delay(&self) -> Option<Duration> {
        self.latest_rtt.filter(|_| !self.latest_is_late)
    }

    /// True if at least half of the window was in flight. The window was then tested recently, and slow start may
    /// continue (RFC 7661 section 4.3, pipeACK). A sender that never fills its window gets one of at most twice what
    /// it uses, and the first losses do not push the window below that amount.
    pub(super) const fn validates(&self, cwnd: u32) -> bool {
        self.window_full || self.flight_before >= cwnd.div_ceil(2)
    }
}

#[cfg(test)]
impl Ack {
    /// An acknowledgement with a full window and without losses or marks. Tests vary single fields.
    pub(crate) fn of(now: Time, acked_bytes: u32, flight_before: u32) -> Self {
        Self {
            now,
            acked_bytes,
            flight_before,
            window_full: true,
            cumulative_advanced: true,
            in_fast_recovery: false,
            all_acked: false,
            rtt: None,
            latest_rtt: None,
            latest_is_late: false,
            ecn_echoed: false,
            share: 1.0,
        }
    }
}

/// Returns the ssthresh after an idle period that lowers `cwnd`: at least three quarters of the old window, and never
/// less than before. RFC 5681 section 4.1 lowers only cwnd. RFC 9260 section 7.2.1 sets ssthresh to the window; a
/// sender with little data for a while would then stay in congestion avoidance with a small window.
pub(super) const fn threshold_after_idle(cwnd: u32, ssthresh: u32) -> u32 {
    let three_quarters = cwnd - cwnd / 4;
    if ssthresh > three_quarters { ssthresh } else { three_quarters }
}

/// The congestion controller of one path. Windows and thresholds are in bytes of DATA chunks, including headers and
/// padding.
pub trait Controller: Debug + Send {
    /// Returns cwnd in bytes, at least one PMDCS.
    fn window(&self) -> u32;

    /// Returns ssthresh in bytes; `u32::MAX` while it is arbitrarily high.
    fn slow_start_threshold(&self) -> u32;

    /// Returns the pacing rate in bytes per second. `None` derives the rate from the window and the round-trip time.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// True if recovery uses proportional rate reduction (RFC 9937). False if the window alone limits the sender.
    fn recovers_in_proportion(&self) -> bool {
        true
    }

    /// True if the controller needs the number of bytes acknowledged with marks ([`Ack::ecn_echoed`]), not
    /// only the fact that there was a mark.
    fn counts_marks(&self) -> bool {
        false
    }

    /// Reacts to an ECN mark on a packet of the current window (RFC 3168 section 6.1), as to a loss that needs no
    /// repair and cannot turn out to be spurious. Called once per window.
    fn on_ecn(&mut self, now: Time);

    /// Called when nothing more can be sent with `flight` bytes in flight although window and pacing allow it: there
    /// is no more data, or the peer's receiver window is full.
    fn on_starved(&mut self, _flight: u32) {}

    /// Called when `bytes` are sent, for the first time or again.
    fn on_sent(&mut self, _now: Time, _bytes: u32) {}

    /// Called when chunks of `bytes` are declared lost.
    fn on_lost(&mut self, _bytes: u32) {}

    /// Returns the number of bytes held on the heap.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// Releases memory that only a busy path needs. Called when nothing has been outstanding for a while.
    fn release_idle(&mut self) {}

    /// Processes a SACK that acknowledged data of this path. Called before
    /// [`on_fast_retransmit`](Self::on_fast_retransmit) when the same SACK reports a loss (section 7.2.4, note).
    fn on_ack(&mut self, ack: &Ack);

    /// Reacts to a loss that SACKs revealed (section 7.2.3). It begins a congestion event that covers everything sent
    /// before it, so it is called once per event.
    fn on_fast_retransmit(&mut self, now: Time);

    /// Reacts to an expiry of T3-rtx (section 7.2.3).
    fn on_timeout(&mut self, now: Time);

    /// The reductions so far were due to real losses and must not be undone any more.
    fn on_certain(&mut self) {}

    /// Restores the window: the losses reported by [`on_fast_retransmit`](Self::on_fast_retransmit) or
    /// [`on_timeout`](Self::on_timeout) since [`on_certain`](Self::on_certain) were spurious. Afterwards the window
    /// is at least what it was before them. A second call, or one without such a loss, has no effect.
    fn on_undo(&mut self);

    /// No data was sent on the path for `rto_periods` whole RTOs (section 7.2.1).
    fn on_idle(&mut self, rto_periods: u32);

    /// The path MTU changed. `pmdcs` is the size in bytes of the largest DATA chunk that now fits a packet.
    fn on_mtu(&mut self, pmdcs: u32);
}
