//! Packetization Layer Path MTU Discovery for one path (RFC 8899, RFC 9260 section 7.3).
//!
//! Sizes are those of IP packets in bytes, including headers. A probe is a HEARTBEAT with a PAD chunk (RFC 8899
//! section 6.2). Its loss is no sign of congestion or of a failed path. Probing needs no timer of its own while
//! nothing is sent: a search begins and continues only while data flows, so that idle associations stay silent. Data
//! flows when packets are at least half full. Messages that must not be fragmented fill at least every second packet
//! that far, whatever their size, but seldom completely.
//!
//! ```text
//!             4 packets half full                 probe acked: mtu = probe, or
//!            since the last probe                  lost 3 times: ceiling = probe - 1
//!     +-------+ ------------------> +---------+ ------------------------------------+
//!     | Ready |                     | Waiting |                                     |
//!     +-------+ <------------------ +---------+                                     v
//!       ^   ^      probe lost                                        ceiling - mtu < 32?
//!       |   +---------------------------------------------------------- no          | yes
//!       |           raise timer (600 s) and data flows                               v
//!       +--------------------------------------------------------------------- +----------+
//!       +--------------------------------------------------------------------- | Complete |
//!          black hole or PTB below mtu: mtu = base (then floor)                +----------+
//! ```

#[cfg(test)]
mod tests;

use core::time::Duration;

use strandline_wire::COMMON_HEADER_LEN;

use crate::packet_sizes::{
    ETHERNET_MTU, IPV4_BASE_PLPMTU, IPV4_HEADER_LEN, IPV4_REASSEMBLY_MIN, IPV6_HEADER_LEN, IPV6_MTU_MIN,
};
use crate::time::Time;

/// MAX_PROBES: number of lost probes after which a size counts as too large. RFC 8899 section 5.1.2 stops the whole
/// search then. Here the search continues below that size, since it starts with large ones.
const PROBES_MAX: u8 = 3;
/// PMTU_RAISE_TIMER (RFC 8899 section 5.1.1).
const RAISE_AFTER: Duration = Duration::from_secs(600);
/// Minimum of PROBE_TIMER, which is the RTO (RFC 8899 section 5.1.1). The 15 s recommended there are for protocols
/// that do not measure the round-trip time.
const PROBE_TIMER_MIN: Duration = Duration::from_secs(1);
/// A search ends when it cannot gain this many bytes.
const SEARCH_GRANULARITY: u16 = 32;
/// Number of packets, at least half full, that must be sent before each probe.
const PACKETS_BEFORE_PROBE: u8 = 4;
/// Number of consecutive time-outs with lost long packets that reveal a black hole.
const BLACK_HOLE_TIMEOUTS: u8 = 2;
/// Number of consecutive acknowledgements that reported long packets as lost, and none as arrived, that reveal a
/// black hole. T3-rtx may never expire where short packets arrive.
const BLACK_HOLE_LOSSES: u8 = 4;
/// Lower bound of [`Pmtu::packet_len`] in bytes, whatever the configured overhead.
const PACKET_LEN_MIN: u16 = 256;
/// The length of an SCTP packet in bytes is a multiple of this, because chunks are padded (RFC 9260 section 3.2).
const PACKET_LEN_UNIT: usize = 4;
/// Acknowledged bytes show that full packets arrive if they are fewer than those of a full packet by less than this
/// fraction.
const FULL_PACKET_DIVISOR: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A probe of size `probe` will be sent when data flows.
    Ready,
    /// The probe was sent.
    Waiting,
    /// The search is over until the raise timer expires.
    Complete,
}

/// The PMTU of one path and the search for a larger one.
#[derive(Debug, Clone)]
pub(crate) struct Pmtu {
    /// Nonce of the latest probe; 0 if no answer counts any more.
    nonce: u64,
    /// In `Waiting`, when the probe was sent. In `Complete`, when the raise timer expires.
    at: Time,
    mtu: u16,
    probe: u16,
    /// Largest size that may still work.
    ceiling: u16,
    max: u16,
    /// Length of the IP header and the encapsulation.
    overhead: u16,
    ipv6: bool,
    state: State,
    /// Number of lost probes of this size.
    probes_lost: u8,
    /// Number of packets, at least half full, sent since the latest probe.
    long_packets: u8,
    /// Number of consecutive time-outs with lost long packets.
    timeouts: u8,
    /// Number of consecutive acknowledgements that reported long packets as lost.
    losses: u8,
}

impl Pmtu {
    /// Starts with a PMTU of `initial` and searches up to `max`; equal values disable the search. `encapsulation` is
    /// the length of the headers between IP and SCTP.
    pub(crate) fn new(initial: u16, max: u16, encapsulation: u16, ipv6: bool) -> Self {
        let header = if ipv6 { IPV6_HEADER_LEN } else { IPV4_HEADER_LEN };
        let mut pmtu = Self {
            nonce: 0,
            at: Time::MAX,
            mtu: initial.min(max),
            probe: 0,
            ceiling: 0,
            max,
            overhead: header.saturating_add(encapsulation),
            ipv6,
            state: State::Complete,
            probes_lost: 0,
            long_packets: 0,
            timeouts: 0,
            losses: 0,
        };
        pmtu.mtu = pmtu.mtu.max(pmtu.floor());
        pmtu.restart();
        pmtu
    }

    /// Starts with the PMTU that an earlier association confirmed, and pauses the search. One time-out that loses
    /// packets longer than the base size is enough to reject it.
    pub(crate) fn begin_at(&mut self, now: Time, mtu: u16) {
        let mtu = mtu.min(self.max);
        if mtu > self.mtu {
            self.mtu = mtu;
            self.ceiling = mtu;
            self.search_on(now);
            self.timeouts = BLACK_HOLE_TIMEOUTS - 1;
        }
    }

    /// Returns the current PMTU.
    pub(crate) fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Returns the length of the longest SCTP packet, common header included, at the current PMTU; a multiple of 4.
    pub(crate) fn packet_len(&self) -> usize {
        self.packet_len_of(self.mtu)
    }

    /// Returns the largest length of an SCTP packet that the search may find, for the peer may have found it.
    #[must_use]
    pub(crate) fn largest_len(&self) -> usize {
        self.packet_len_of(self.max)
    }

    /// Returns the length of the longest SCTP packet at the smallest PMTU.
    pub(crate) fn floor_len(&self) -> usize {
        self.packet_len_of(self.floor())
    }

    /// Returns the smallest PMTU used on the path.
    pub(crate) fn smallest(&self) -> u16 {
        self.floor()
    }

    /// Returns the minimum length of an SCTP packet that IP can fragment. On IPv6 the kernel fragments only packets
    /// longer than the interface's MTU, which is assumed to be at most the largest size of the search. Returns 0 on
    /// IPv4.
    pub(crate) fn cut_from(&self) -> usize {
        if self.ipv6 { self.packet_len_of(self.max) + PACKET_LEN_UNIT } else { 0 }
    }

    /// Records that an SCTP packet of `len` bytes with data was sent.
    pub(crate) fn on_packet_sent(&mut self, len: usize) {
        if 2 * len >= self.packet_len() {
            self.long_packets = self.long_packets.saturating_add(1);
        }
    }

    /// Returns the length of the SCTP packet to probe with now: a HEARTBEAT chunk, filled up with a PAD chunk.
    pub(crate) fn probe_due(&mut self, now: Time) -> Option<usize> {
        if self.long_packets < PACKETS_BEFORE_PROBE {
            return None;
        }
        if self.state == State::Complete && now >= self.at {
            self.restart();
        }
        (self.state == State::Ready).then(|| self.packet_len_of(self.probe))
    }

    /// Records that the probe of [`probe_due`](Self::probe_due) was sent. `nonce` is random and not 0.
    pub(crate) fn on_probe_sent(&mut self, now: Time, nonce: u64) {
        if self.state == State::Ready {
            self.state = State::Waiting;
            self.nonce = nonce;
            self.at = now;
            self.long_packets = 0;
        }
    }

    /// Returns when the probe counts as lost; `Time::MAX` if none is outstanding.
    #[inline]
    pub(crate) fn deadline(&self, rto: Duration) -> Time {
        if self.state == State::Waiting { self.at + rto.max(PROBE_TIMER_MIN) } else { Time::MAX }
    }

    /// Handles a lost probe. Call it when the deadline may have passed.
    pub(crate) fn on_timer(&mut self, now: Time, rto: Duration) {
        if self.state != State::Waiting || now < self.deadline(rto) {
            return;
        }
        self.state = State::Ready;
        self.probes_lost += 1;
        if self.probes_lost >= PROBES_MAX {
            self.ceiling = self.probe.saturating_sub(1);
            self.search_on(now);
        }
    }

    /// Processes a HEARTBEAT ACK. If it answers the probe, raises the PMTU to its size and returns when the probe was
    /// sent.
    pub(crate) fn on_ack(&mut self, now: Time, nonce: u64) -> Option<Time> {
        if nonce == 0 || nonce != self.nonce {
            return None;
        }
        let sent_at = self.at;
        self.mtu = self.probe.max(self.mtu);
        self.timeouts = 0;
        self.search_on(now);
        Some(sent_at)
    }

    /// Records that one SACK acknowledged `bytes` of data. Only about as much as a full packet shows that full
    /// packets arrive. Messages that must not be fragmented leave a part of each packet empty.
    pub(crate) fn on_acked(&mut self, bytes: u32) {
        let full = self.packet_len();
        if usize::try_from(bytes).unwrap_or(usize::MAX) + COMMON_HEADER_LEN + full / FULL_PACKET_DIVISOR
            > full
        {
            self.timeouts = 0;
            self.losses = 0;
        }
    }

    /// Records that an acknowledgement reported `lost` bytes of DATA chunks as missing. Call it after
    /// [`on_acked`](Self::on_acked). Returns true if the PMTU fell.
    pub(crate) fn on_lost(&mut self, lost: usize) -> bool {
        if lost + COMMON_HEADER_LEN <= self.packet_len_of(self.floor()) {
            return false;
        }
        self.losses = self.losses.saturating_add(1);
        self.losses >= BLACK_HOLE_LOSSES && self.on_black_hole(lost)
    }

    /// Records an expiry of T3-rtx with `lost` bytes of DATA chunks in flight, an upper bound of the longest lost
    /// packet. Packets shorter than the floor were not lost because of their length. Returns true if the PMTU fell.
    pub(crate) fn on_timeout(&mut self, lost: usize) -> bool {
        if self.state == State::Waiting {
            // Nothing arrives at present, so the loss of a probe says nothing about its size.
            self.state = State::Ready;
        }
        if lost + COMMON_HEADER_LEN <= self.packet_len_of(self.floor()) {
            return false;
        }
        self.timeouts = self.timeouts.saturating_add(1);
        self.timeouts >= BLACK_HOLE_TIMEOUTS && self.on_black_hole(lost)
    }

    /// Reacts to a black hole: packets with up to `lost` bytes of DATA chunks do not arrive (RFC 8899 section 4.3).
    /// The PMTU falls to the base size, or to the floor if those packets were no longer than the base size, and the
    /// search restarts. Returns true if the PMTU fell.
    pub(crate) fn on_black_hole(&mut self, lost: usize) -> bool {
        self.timeouts = 0;
        self.losses = 0;
        let base_helps = self.mtu > self.base() && lost + COMMON_HEADER_LEN > self.packet_len_of(self.base());
        let lower = if base_helps { self.base() } else { self.floor() };
        if lower >= self.mtu {
            return false;
        }
        self.mtu = lower;
        self.restart();
        // If the base size is still too long, the next time-out reveals it.
        self.timeouts = BLACK_HOLE_TIMEOUTS - 1;
        true
    }

    /// Processes a Packet Too Big message that reports `mtu` about one of our packets. The caller has checked the
    /// quoted packet (RFC 8899 section 4.6). Returns true if the PMTU fell.
    ///
    /// The reported value never becomes the PMTU by itself. The search continues from it, starting at the base size
    /// if the report is below the current PMTU.
    pub(crate) fn on_packet_too_big(&mut self, now: Time, mtu: u32) -> bool {
        let Ok(reported) = u16::try_from(mtu) else { return false };
        if reported < self.floor() {
            return false;
        }
        let searching = self.state != State::Complete;
        let fell = reported < self.mtu;
        if fell {
            self.mtu = if reported >= self.base() { self.base() } else { self.floor() };
            self.timeouts = 0;
        } else if !searching || reported >= self.probe {
            return false;
        }
        self.ceiling = reported;
        self.search_on(now);
        if self.state == State::Ready {
            self.probe = reported;
            self.long_packets = PACKETS_BEFORE_PROBE;
        }
        fell
    }

    /// Restarts the search when the path is reachable again, because probes that were lost while it was not say
    /// nothing.
    pub(crate) fn on_path_returned(&mut self) {
        self.timeouts = 0;
        self.restart();
    }

    /// Sets the configured maximum. Returns true if the PMTU fell.
    pub(crate) fn set_max(&mut self, max: u16) -> bool {
        if max == self.max {
            return false;
        }
        self.max = max;
        let fell = self.mtu > max;
        self.mtu = self.mtu.min(max).max(self.floor());
        self.restart();
        fell
    }

    /// Begins a search with the size that most paths carry; if it is the largest, one probe is enough.
    fn restart(&mut self) {
        self.nonce = 0;
        self.probes_lost = 0;
        self.long_packets = 0;
        self.ceiling = self.max;
        self.probe = if self.mtu < ETHERNET_MTU { ETHERNET_MTU.min(self.max) } else { self.max };
        if self.mtu < self.max {
            self.state = State::Ready;
        } else {
            self.state = State::Complete;
            self.at = Time::MAX;
        }
    }

    /// Selects the next size, or ends the search.
    fn search_on(&mut self, now: Time) {
        self.nonce = 0;
        self.probes_lost = 0;
        let range = self.ceiling.saturating_sub(self.mtu);
        if range < SEARCH_GRANULARITY {
            self.state = State::Complete;
            self.at = if self.mtu < self.max { now + RAISE_AFTER } else { Time::MAX };
        } else {
            self.state = State::Ready;
            // The largest size is the MTU of the link, and likelier than any between.
            let is_untried = self.ceiling == self.max && self.probe < self.max;
            self.probe = if is_untried { self.max } else { self.mtu + range.div_ceil(2) };
        }
    }

    fn base(&self) -> u16 {
        if self.ipv6 { self.floor() } else { IPV4_BASE_PLPMTU.min(self.max) }
    }

    fn floor(&self) -> u16 {
        let floor = if self.ipv6 { IPV6_MTU_MIN } else { IPV4_REASSEMBLY_MIN };
        floor.min(self.max)
    }

    fn packet_len_of(&self, mtu: u16) -> usize {
        usize::from(mtu.saturating_sub(self.overhead).max(PACKET_LEN_MIN) & !3)
    }
}
