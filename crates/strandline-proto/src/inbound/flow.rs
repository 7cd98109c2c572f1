//! How data comes, in rounds of a round-trip time each: what an acknowledgement stands for goes by it.
//!
//! A receiver that sends no data learns the round-trip time from a HEARTBEAT of its own, which carries a nonce of this
//! flow. It says nothing of the path if that is lost.

use core::time::Duration;

use super::duplicates::Duplicates;
use crate::time::Time;

/// Rounds are no shorter than this: with fewer packets in one, a burst or its absence would look like a change of rate.
const ROUND_MIN: Duration = Duration::from_millis(2);

/// A round-trip time holds so long.
const RTT_AGE_MAX: Duration = Duration::from_secs(2);

/// Packets for one acknowledgement (RFC 9260 section 6.2).
pub(super) const EVERY_MIN: u8 = 2;

/// Packets for one acknowledgement, at most.
const EVERY_MAX: u8 = 16;

/// Acknowledgements in each round trip, at least, before one stands for more than two packets.
const SACKS_IN_ROUND: u32 = 16;

/// Rounds without a pause of the sender after which acknowledgements may become rarer again than they were when it paused.
const ROUNDS_FORGIVEN: u8 = 32;

/// What there is only while data comes in volume, or came twice.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) duplicates: Duplicates,
    /// The present round began; `Time::MAX`: nothing is known of any.
    since: Time,
    packets: u32,
    packets_before: u32,
    rtt: Option<Duration>,
    /// The HEARTBEAT under way.
    nonce: u64,
    asked_at: Option<Time>,
    /// Packets for one acknowledgement now, and at most.
    every: u8,
    every_max: u8,
    calm_rounds: u8,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            duplicates: Duplicates::default(),
            since: Time::MAX,
            packets: 0,
            packets_before: 0,
            rtt: None,
            nonce: 0,
            asked_at: None,
            every: EVERY_MIN,
            every_max: EVERY_MAX,
            calm_rounds: 0,
        }
    }
}

impl Flow {
    /// Packets for one acknowledgement.
    #[inline]
    pub(super) const fn every(&self) -> u8 {
        self.every
    }

    /// How long an acknowledgement of several packets waits for the last of them: no more than a part of what it takes
    /// the sender to hear of it.
    pub(super) fn patience(&self) -> Duration {
        self.rtt.map_or(Duration::ZERO, |rtt| rtt / 4).max(Duration::from_millis(1))
    }

    /// A packet with new data came, nothing is missing.
    #[inline]
    pub(super) fn on_packet(&mut self, now: Time) {
        self.packets = self.packets.saturating_add(1);
        let Some(rtt) = self.rtt else { return };
        if self.since == Time::MAX {
            self.begin_round(now);
        } else if now.since(self.since) >= rtt.max(ROUND_MIN) {
            self.end_round();
            self.begin_round(now);
        }
    }

    fn begin_round(&mut self, now: Time) {
        self.since = now;
        self.packets = 0;
    }

    fn end_round(&mut self) {
        let grows = self.packets > self.packets_before.saturating_add(self.packets_before / 4);
        self.packets_before = self.packets;
        self.calm_rounds = self.calm_rounds.saturating_add(1);
        if self.calm_rounds >= ROUNDS_FORGIVEN && self.every_max < EVERY_MAX {
            self.every_max += 1;
            self.calm_rounds = 0;
        }
        let wanted = u8::try_from(self.packets / SACKS_IN_ROUND).unwrap_or(u8::MAX);
        let wanted = if grows { EVERY_MIN } else { wanted.clamp(EVERY_MIN, self.every_max.max(EVERY_MIN)) };
        // Rarer step by step, more frequent at once.
        self.every = wanted.min(self.every.saturating_mul(2));
    }

    /// Something is missing or came twice: the sender needs every word, and will send at another rate.
    pub(super) fn on_trouble(&mut self) {
        self.every = EVERY_MIN;
        self.packets_before = 0;
        self.since = Time::MAX;
    }

    /// An acknowledgement waited in vain for further packets: the sender had no more to send, or waited for it.
    pub(super) fn on_pause(&mut self) {
        if self.every > EVERY_MIN {
            self.every_max = (self.every / 2).max(EVERY_MIN);
            self.every = self.every_max;
        }
        self.calm_rounds = 0;
    }

    /// Is the round-trip time to be measured now?
    #[inline]
    pub(super) fn wants_rtt(&self, now: Time) -> bool {
        self.asked_at.is_none_or(|at| now.since(at) >= RTT_AGE_MAX)
    }

    /// A HEARTBEAT with this nonce is on its way; `srtt` is what the path knows, for as long as there is no answer.
    pub(super) fn on_rtt_asked(&mut self, now: Time, nonce: u64, srtt: Option<Duration>) {
        self.asked_at = Some(now);
        self.nonce = nonce;
        self.rtt = self.rtt.or(srtt);
    }

    /// The answer, if it is the one.
    pub(super) fn on_rtt_answer(&mut self, now: Time, nonce: u64) {
        if let Some(at) = self.asked_at.filter(|_| nonce == self.nonce && nonce != 0) {
            self.nonce = 0;
            self.rtt = Some(now.since(at));
        }
    }
}

#[cfg(test)]
mod tests;
