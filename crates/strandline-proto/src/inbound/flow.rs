//! Measures arriving data in rounds of a round-trip time. It determines how many packets an acknowledgement covers,
//! and the size of the receive window (as in Fisk and Feng's dynamic right-sizing).
//!
//! A receiver that sends no data measures the round-trip time with its own HEARTBEAT, which carries a nonce of this
//! flow. Its loss is no error of the path.

use core::time::Duration;

use super::duplicates::Duplicates;
use super::non_renegable::NonRenegable;
use crate::time::Time;

/// Minimum length of a round: with fewer packets, a burst or its absence would look like a change of rate.
const ROUND_MIN: Duration = Duration::from_millis(2);

/// Resolution of timers.
pub(super) const SACK_DELAY_MIN: Duration = Duration::from_millis(1);

/// An acknowledgement of several packets waits for at most this fraction of a round-trip time.
const SACK_DELAY_DIVISOR: u32 = 4;

/// The rate grows if a round has more packets than the one before by more than this fraction.
const GROWTH_DIVISOR: u32 = 4;

/// Lifetime of a measured round-trip time.
const RTT_AGE_MAX: Duration = Duration::from_secs(2);

/// Minimum number of packets per acknowledgement (RFC 9260 section 6.2).
pub(super) const EVERY_MIN: u8 = 2;

/// Maximum number of packets per acknowledgement.
const EVERY_MAX: u8 = 16;

/// Number of gaps from which on an acknowledgement costs as much as some packets of data, while the next one adds
/// hardly anything.
const GAPS_MANY: u16 = 32;

/// From then on one acknowledgement covers a packet for each `GAPS_EACH` gaps, up to `CROWDED_MAX` packets.
const GAPS_EACH: u16 = 8;
const CROWDED_MAX: u8 = 32;

/// Minimum number of acknowledgements per round trip before one covers more than two packets.
const SACKS_IN_ROUND: u32 = 16;

/// Number of rounds without a pause of the sender after which acknowledgements may become rarer than at the last
/// pause.
const ROUNDS_FORGIVEN: u8 = 32;

/// State that exists only while data arrives in volume, or after duplicates.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) duplicates: Duplicates,
    /// Start of the current round.
    since: Time,
    /// The round ends with the first packet after this time; `Time::ZERO` if none has begun, `Time::MAX` if the
    /// round-trip time is unknown.
    until: Time,
    packets: u32,
    packets_before: u32,
    /// Bytes that arrived in this round.
    arrived: u32,
    /// Unread bytes when the round began.
    unread_before: u32,
    /// The window as the peer saw it at the last packet.
    promised: u32,
    /// Maximum size of the receive buffer as of the latest round.
    pub(super) buffer_max: Option<u32>,
    rtt: Option<Duration>,
    rtt_min: Option<Duration>,
    /// Round-trip time of the slowest path on which data may come, if there are several.
    rtt_max: Option<Duration>,
    sack_delay: Duration,
    /// Nonce of the HEARTBEAT in flight.
    nonce: u64,
    probed_at: Time,
    probe_at: Time,
    /// Current number of packets per acknowledgement, and its maximum.
    every: u8,
    every_max: u8,
    calm_rounds: u8,
    /// Number of gaps in the latest acknowledgement.
    gaps: u16,
    /// What NR-SACKs report as non-renegable, once one has reported a gap.
    pub(super) non_renegable: Option<Box<NonRenegable>>,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            duplicates: Duplicates::default(),
            since: Time::ZERO,
            until: Time::MAX,
            packets: 0,
            packets_before: 0,
            arrived: 0,
            unread_before: 0,
            promised: 0,
            buffer_max: None,
            rtt: None,
            rtt_min: None,
            rtt_max: None,
            sack_delay: SACK_DELAY_MIN,
            nonce: 0,
            probed_at: Time::ZERO,
            probe_at: Time::ZERO,
            every: EVERY_MIN,
            every_max: EVERY_MAX,
            calm_rounds: 0,
            gaps: 0,
            non_renegable: None,
        }
    }
}

impl Flow {
    /// Creates a flow that begins while the peer has `promised` bytes of window.
    pub(super) fn of_window(promised: u32) -> Box<Self> {
        Box::new(Self { promised, ..Self::default() })
    }

    /// Returns the heap bytes of this and what it holds.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.non_renegable.as_ref().map_or(0, |record| record.heap_bytes())
    }

    /// Returns the number of packets per acknowledgement.
    #[inline]
    pub(super) const fn every(&self) -> u8 {
        self.every
    }

    /// Records that an acknowledgement with `gaps` gaps is sent.
    #[inline]
    pub(super) const fn on_gaps(&mut self, gaps: usize) {
        self.gaps = if gaps > u16::MAX as usize { u16::MAX } else { gaps as u16 };
    }

    /// Returns the number of packets per acknowledgement if so much is missing that acknowledging each packet would
    /// be most of the work.
    #[inline]
    pub(super) fn crowded(&self) -> Option<u8> {
        let many = self.gaps >= GAPS_MANY;
        many.then(|| u8::try_from(self.gaps / GAPS_EACH).unwrap_or(CROWDED_MAX).min(CROWDED_MAX))
    }

    /// Returns how long an acknowledgement of several packets waits for the last of them: at most a fraction of the
    /// time that it takes to the sender.
    #[inline]
    pub(super) const fn sack_delay(&self) -> Duration {
        self.sack_delay
    }

    /// Records a packet with data, after which the peer has `promised` bytes of window left. Returns true if a
    /// [`turn`](Self::turn) is due.
    #[inline]
    pub(super) fn on_packet(&mut self, now: Time, promised: u32) -> bool {
        self.packets = self.packets.wrapping_add(1);
        self.arrived = self.arrived.wrapping_add(self.promised.wrapping_sub(promised));
        self.promised = promised;
        now >= self.until
    }

    /// Ends the round, if one had begun, and begins the next with `unread` bytes that the application could read.
    /// Returns the bytes that the application kept up with per round-trip time: what arrived, unless it waits to be
    /// read. Data beyond a gap does not count as unread. With several paths it is the round-trip time of the slowest: a
    /// sender that uses all at once needs so much room for what arrives ahead of it.
    #[inline(never)]
    pub(super) fn turn(&mut self, now: Time, unread: u32) -> Option<u32> {
        let rtt = self.rtt?;
        let begun = self.until != Time::ZERO;
        let kept_up = self.arrived.saturating_add(self.unread_before).saturating_sub(unread);
        let elapsed = now.since(self.since);
        if begun {
            self.end_round();
        }
        self.since = now;
        self.until = now + rtt.max(ROUND_MIN);
        self.packets = 0;
        self.arrived = 0;
        self.unread_before = unread;
        let longest = self.rtt_max.map_or(rtt, |longest| longest.max(rtt));
        let in_round_trip = u128::from(kept_up) * longest.as_nanos() / elapsed.as_nanos().max(1);
        u32::try_from(in_round_trip).ok().filter(|_| begun)
    }

    /// Records the advertised window.
    pub(super) const fn on_advertised(&mut self, a_rwnd: u32) {
        self.promised = a_rwnd;
    }

    fn end_round(&mut self) {
        let grows = self.packets > self.packets_before.saturating_add(self.packets_before / GROWTH_DIVISOR);
        self.packets_before = self.packets;
        self.calm_rounds = self.calm_rounds.saturating_add(1);
        if self.calm_rounds >= ROUNDS_FORGIVEN && self.every_max < EVERY_MAX {
            self.every_max += 1;
            self.calm_rounds = 0;
        }
        let wanted = u8::try_from(self.packets / SACKS_IN_ROUND).unwrap_or(u8::MAX);
        let wanted = if grows { EVERY_MIN } else { wanted.clamp(EVERY_MIN, self.every_max.max(EVERY_MIN)) };
        // Acknowledgements become rarer step by step, and more frequent at once.
        self.every = wanted.min(self.every.saturating_mul(2));
    }

    /// Handles missing data or duplicates: the sender needs every acknowledgement, and will change its rate.
    pub(super) fn on_irregular(&mut self) {
        self.every = EVERY_MIN;
        self.packets_before = 0;
    }

    /// Handles an acknowledgement that waited in vain for further packets: the sender had no more to send, or waited
    /// for it.
    pub(super) fn on_pause(&mut self) {
        if self.every > EVERY_MIN {
            self.every_max = (self.every / 2).max(EVERY_MIN);
            self.every = self.every_max;
        }
        self.calm_rounds = 0;
    }

    /// True if the round-trip time should be measured now.
    #[inline]
    pub(super) fn wants_rtt(&self, now: Time) -> bool {
        self.probe_at <= now
    }

    #[inline]
    pub(super) const fn is_measured(&self) -> bool {
        self.rtt.is_some()
    }

    /// Records that a HEARTBEAT with this nonce was sent. `srtt` is the path's value, used until the answer
    /// arrives, and `longest` that of the slowest path, if there are several.
    pub(super) fn on_rtt_probe_sent(
        &mut self,
        now: Time,
        nonce: u64,
        srtt: Option<Duration>,
        longest: Option<Duration>,
    ) {
        self.rtt_max = longest;
        self.probed_at = now;
        self.probe_at = now + RTT_AGE_MAX;
        self.nonce = nonce;
        if let Some(srtt) = srtt.filter(|_| self.rtt.is_none()) {
            self.set_rtt(srtt);
        }
    }

    /// Processes the answer if the nonce matches.
    pub(super) fn on_rtt_answer(&mut self, now: Time, nonce: u64) {
        if nonce == self.nonce && nonce != 0 {
            self.nonce = 0;
            self.set_rtt(now.since(self.probed_at));
        }
    }

    /// Returns the shortest round-trip time that was measured.
    #[inline]
    pub(super) const fn rtt_min(&self) -> Option<Duration> {
        self.rtt_min
    }

    fn set_rtt(&mut self, rtt: Duration) {
        self.rtt = Some(rtt);
        self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
        self.sack_delay = (rtt / SACK_DELAY_DIVISOR).max(SACK_DELAY_MIN);
        if self.until == Time::MAX {
            self.until = Time::ZERO;
        }
    }
}

#[cfg(test)]
mod tests;
