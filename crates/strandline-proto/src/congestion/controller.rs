//! What a path asks of its congestion controller.

use core::fmt::Debug;
use core::time::Duration;

use crate::time::Time;

/// What one SACK acknowledged on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// When the SACK arrived.
    pub now: Time,
    /// Bytes newly acknowledged, cumulatively or by gap blocks. DATA chunks count with header and padding (section 7.2).
    pub acked_bytes: u32,
    /// Bytes outstanding on the path before the SACK arrived, counted likewise.
    pub flight_before: u32,
    /// The congestion window was fully used before the SACK arrived: `flight_before` reached it. SACKs that arrive
    /// together count as one arrival, so that handling them in a batch costs no growth.
    pub window_full: bool,
    /// The Cumulative TSN Ack Point advanced.
    pub cumulative_advanced: bool,
    /// The association is in Fast Recovery (section 7.2.4).
    pub in_fast_recovery: bool,
    /// Nothing is outstanding on the path any more.
    pub all_acked: bool,
    /// A round-trip time that the SACK measured; one in each round trip.
    pub rtt: Option<Duration>,
    /// The round-trip time of the latest chunk it acknowledges that was sent only once.
    pub latest_rtt: Option<Duration>,
    /// The chunk of `latest_rtt` may have arrived long before: the SACKs since then had no room to name it. It tells when what is acknowledged was sent,
    /// and nothing of the delay.
    pub latest_is_late: bool,
    /// The peer says that the network marked what it acknowledges (an ECNE chunk came with it).
    pub marked: bool,
}

impl Ack {
    /// The delay of the path, as the latest chunk shows it.
    pub(super) fn delay(&self) -> Option<Duration> {
        self.latest_rtt.filter(|_| !self.latest_is_late)
    }

    /// At least half of the window was in flight: what it allows was tried lately, and slow start may go on (RFC 7661
    /// section 4.3, pipeACK). Who sends less than the window each time gets a window of up to twice as much, which the
    /// first losses then don't push below what it sends.
    pub(super) const fn validates(&self, cwnd: u32) -> bool {
        self.window_full || self.flight_before >= cwnd.div_ceil(2)
    }
}

#[cfg(test)]
impl Ack {
    /// The one that tests vary: of a full window, without loss or mark.
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
            marked: false,
        }
    }
}

/// ssthresh after a pause that lowers `cwnd`: the window was that large lately, and what slow start hadn't found before isn't
/// found by a pause. RFC 5681 section 4.1 lowers only cwnd; RFC 9260 section 7.2.1 sets ssthresh to the window, and who sends
/// little for a while would be in congestion avoidance with as little for good.
pub(super) const fn threshold_after_idle(cwnd: u32, ssthresh: u32) -> u32 {
    let three_quarters = cwnd - cwnd / 4;
    if ssthresh > three_quarters { ssthresh } else { three_quarters }
}

/// A congestion controller of one path. Windows and thresholds are in bytes of DATA chunks, headers and padding
/// included.
pub trait Controller: Debug + Send {
    /// cwnd. Never below one PMDCS.
    fn window(&self) -> u32;

    /// ssthresh; `u32::MAX` as long as it is arbitrarily high.
    fn slow_start_threshold(&self) -> u32;

    /// Bytes a second at which data is to be sent; `None`: as the window and the round-trip time have it.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// In recovery what is sent follows what arrives (RFC 9937), down to the window. False: the window alone counts.
    fn recovers_in_proportion(&self) -> bool {
        true
    }

    /// How much of what was acknowledged had been marked counts ([`Ack::marked`]), not that there was a mark.
    fn counts_marks(&self) -> bool {
        false
    }

    /// The network marked a packet of this window (RFC 3168 section 6.1): as a loss, but none that is repaired or can turn
    /// out to be none. Once for each window.
    fn on_ecn(&mut self, now: Time);

    /// With so many bytes in flight nothing more could be sent though window and pacing allow it: there is no more data, or no
    /// room at the peer.
    fn on_starved(&mut self, _flight: u32) {}

    /// So many bytes were sent, for the first time or again.
    fn on_sent(&mut self, _now: Time, _bytes: u32) {}

    /// Chunks of so many bytes were found lost.
    fn on_lost(&mut self, _bytes: u32) {}

    /// Bytes that it holds on the heap.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// Nothing has been outstanding for a while: what is of use only while something is, is given back.
    fn release_idle(&mut self) {}

    /// A SACK acknowledged data of this path. Called before [`on_fast_retransmit`](Self::on_fast_retransmit) when the
    /// same SACK reports a loss (section 7.2.4, note).
    fn on_ack(&mut self, ack: &Ack);

    /// A loss was found from SACKs and a congestion event begins (section 7.2.3): once for all that was sent before that.
    fn on_fast_retransmit(&mut self, now: Time);

    /// T3-rtx expired (section 7.2.3).
    fn on_timeout(&mut self, now: Time);

    /// What the window shrank for so far was a loss: it is not undone any more.
    fn on_certain(&mut self) {}

    /// What [`on_fast_retransmit`](Self::on_fast_retransmit) or [`on_timeout`](Self::on_timeout) was called for since
    /// [`on_certain`](Self::on_certain) turned out to be no loss: the window is at least what it was before. Without effect if
    /// there was none, or for the second time.
    fn on_undo(&mut self);

    /// No data was sent on the path for `rto_periods` whole RTOs (section 7.2.1).
    fn on_idle(&mut self, rto_periods: u32);

    /// The path MTU changed: `pmdcs` bytes are the largest DATA chunk that now fits a packet.
    fn on_mtu(&mut self, pmdcs: u32);
}
