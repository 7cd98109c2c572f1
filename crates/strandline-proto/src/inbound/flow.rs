//! How data comes, in rounds of a round-trip time each: what an acknowledgement stands for and how large the receive window
//! should be go by it (the latter as in Fisk and Feng's dynamic right-sizing).
//!
//! A receiver that sends no data learns the round-trip time from a HEARTBEAT of its own, which carries a nonce of this
//! flow. It says nothing of the path if that is lost.

use core::time::Duration;

use super::duplicates::Duplicates;
use crate::time::Time;

/// Rounds are no shorter than this: with fewer packets in one, a burst or its absence would look like a change of rate.
const ROUND_MIN: Duration = Duration::from_millis(2);

/// Timers are no finer.
pub(super) const PATIENCE_MIN: Duration = Duration::from_millis(1);

/// A round-trip time holds so long.
const RTT_AGE_MAX: Duration = Duration::from_secs(2);

/// Packets for one acknowledgement (RFC 9260 section 6.2).
pub(super) const EVERY_MIN: u8 = 2;

/// Packets for one acknowledgement, at most.
const EVERY_MAX: u8 = 16;

/// An acknowledgement that names so many gaps costs as much as some packets of data, and the next one says hardly more.
const GAPS_MANY: u16 = 32;

/// From then on one stands for a packet for so many gaps, and for no more than this.
const GAPS_EACH: u16 = 8;
const CROWDED_MAX: u8 = 32;

/// Acknowledgements in each round trip, at least, before one stands for more than two packets.
const SACKS_IN_ROUND: u32 = 16;

/// Rounds without a pause of the sender after which acknowledgements may become rarer again than they were when it paused.
const ROUNDS_FORGIVEN: u8 = 32;

/// What there is only while data comes in volume, or came twice.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) duplicates: Duplicates,
    /// The present round began.
    since: Time,
    /// It ends with the first packet from then on; `Time::ZERO`: none has begun; `Time::MAX`: the round-trip time is unknown.
    until: Time,
    packets: u32,
    packets_before: u32,
    /// Bytes that came in the present round.
    arrived: u32,
    /// What waited to be read when it began.
    unread_before: u32,
    /// The window as the peer saw it when that was last looked at.
    promised: u32,
    /// The receive buffer is to be no larger, as of the latest round, if there was one.
    pub(super) buffer_max: Option<u32>,
    rtt: Option<Duration>,
    patience: Duration,
    /// The HEARTBEAT under way.
    nonce: u64,
    asked_at: Time,
    ask_at: Time,
    /// Packets for one acknowledgement now, and at most.
    every: u8,
    every_max: u8,
    calm_rounds: u8,
    /// In the latest acknowledgement.
    gaps: u16,
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
            patience: PATIENCE_MIN,
            nonce: 0,
            asked_at: Time::ZERO,
            ask_at: Time::ZERO,
            every: EVERY_MIN,
            every_max: EVERY_MAX,
            calm_rounds: 0,
            gaps: 0,
        }
    }
}

impl Flow {
    /// A flow that begins while the peer has `promised` bytes of window.
    pub(super) fn of_window(promised: u32) -> Box<Self> {
        Box::new(Self { promised, ..Self::default() })
    }

    /// Packets for one acknowledgement.
    #[inline]
    pub(super) const fn every(&self) -> u8 {
        self.every
    }

    /// An acknowledgement goes that names so many gaps.
    #[inline]
    pub(super) const fn on_gaps(&mut self, gaps: usize) {
        self.gaps = if gaps > u16::MAX as usize { u16::MAX } else { gaps as u16 };
    }

    /// Packets for one acknowledgement, if so much is missing that one for each of them would be most of what there is to do.
    #[inline]
    pub(super) fn crowded(&self) -> Option<u8> {
        let many = self.gaps >= GAPS_MANY;
        many.then(|| u8::try_from(self.gaps / GAPS_EACH).unwrap_or(CROWDED_MAX).min(CROWDED_MAX))
    }

    /// How long an acknowledgement of several packets waits for the last of them: no more than a part of what it takes
    /// the sender to hear of it.
    #[inline]
    pub(super) const fn patience(&self) -> Duration {
        self.patience
    }

    /// A packet with data came, after which the peer has `promised` bytes of window left. True: a [`turn`](Self::turn) is due.
    #[inline]
    pub(super) fn on_packet(&mut self, now: Time, promised: u32) -> bool {
        self.packets = self.packets.wrapping_add(1);
        self.arrived = self.arrived.wrapping_add(self.promised.wrapping_sub(promised));
        self.promised = promised;
        now >= self.until
    }

    /// A round ends, unless none had begun, and the next begins, with `unread` bytes that the application could read. Returns
    /// what it kept up with in a round-trip time, in bytes: what came, unless it waits to be read. What waits for something
    /// that is missing isn't for the application to read.
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
        let in_round_trip = u128::from(kept_up) * rtt.as_nanos() / elapsed.as_nanos().max(1);
        u32::try_from(in_round_trip).ok().filter(|_| begun)
    }

    /// The peer is told of this window.
    pub(super) const fn on_advertised(&mut self, a_rwnd: u32) {
        self.promised = a_rwnd;
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
        self.ask_at <= now
    }

    #[inline]
    pub(super) const fn is_measured(&self) -> bool {
        self.rtt.is_some()
    }

    /// A HEARTBEAT with this nonce is on its way; `srtt` is what the path knows, for as long as there is no answer.
    pub(super) fn on_rtt_asked(&mut self, now: Time, nonce: u64, srtt: Option<Duration>) {
        self.asked_at = now;
        self.ask_at = now + RTT_AGE_MAX;
        self.nonce = nonce;
        if let Some(srtt) = srtt.filter(|_| self.rtt.is_none()) {
            self.set_rtt(srtt);
        }
    }

    /// The answer, if it is the one.
    pub(super) fn on_rtt_answer(&mut self, now: Time, nonce: u64) {
        if nonce == self.nonce && nonce != 0 {
            self.nonce = 0;
            self.set_rtt(now.since(self.asked_at));
        }
    }

    fn set_rtt(&mut self, rtt: Duration) {
        self.rtt = Some(rtt);
        self.patience = (rtt / 4).max(PATIENCE_MIN);
        if self.until == Time::MAX {
            self.until = Time::ZERO;
        }
    }
}

#[cfg(test)]
mod tests;
