//! HyStart++ (RFC 9406): slow start ends where the round-trip time begins to grow, before the queue overflows, by way of
//! some rounds of slower growth in case the growth of the delay was a passing one.
//!
//! The smallest round-trip time of a round is that of its first packets, so that a queue shows a round after it began, when
//! the window has doubled again: on a long path that is a whole queue too much. There slow start ends by the length of the
//! train of acknowledgements, too, as the first HyStart had it (Ha and Rhee, 2008, section 3.2): what is paced at four
//! windows a round trip is acknowledged in a quarter of one, and for longer only if the path can't take it as fast. The
//! slower growth that follows then ends as soon as there is half a round trip of queue.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Time;

/// Round-trip times needed to judge a round.
const SAMPLES_MIN: u32 = 8;
/// Bounds of the growth of delay that ends slow start.
const THRESHOLD_MIN_US: u32 = 4_000;
const THRESHOLD_MAX_US: u32 = 16_000;
/// The growth is the smallest round-trip time of the round before divided by this.
const THRESHOLD_DIVISOR: u32 = 8;
/// Growth in Conservative Slow Start is divided by this.
const CONSERVATIVE_DIVISOR: u32 = 4;
/// Rounds of Conservative Slow Start.
const CONSERVATIVE_ROUNDS: u8 = 5;
/// A train of acknowledgements this long, in eighths of the smallest round-trip time, shows that the path is full.
const TRAIN_EIGHTHS: u32 = 5;
/// Shorter paths are not judged by trains: timers of the pacing side may be late by a part of them that matters.
const TRAIN_RTT_MIN_US: u32 = 10_000;
/// The queue at the end of a train that the path stretched, at least: more than programs are late.
const TRAIN_QUEUE_MIN_US: u32 = 4_000;
const TRAIN_QUEUE_DIVISOR: u32 = 16;
/// Acknowledgements of one train are no further apart than this, or than this part of the smallest round-trip time: one of
/// 128 packets comes 15 ms after the one before at 100 Mbit/s.
const TRAIN_GAP_MIN_US: u32 = 4_000;
const TRAIN_GAP_DIVISOR: u32 = 8;

/// The state of one slow start. A round trip is over when as much was acknowledged as was in flight at its start.
#[derive(Debug, Clone, Default)]
pub(super) struct HyStart {
    /// Bytes to be acknowledged until the round is over.
    round_left: u32,
    last_min_us: u32,
    current_min_us: u32,
    samples: u32,
    /// Rounds of Conservative Slow Start still to go, and the smallest round-trip time before it; 0 rounds: not in it.
    conservative: u8,
    baseline_us: u32,
    /// The smallest round-trip time of all rounds; 0: none yet.
    min_us: u32,
    /// When the round began, and the latest acknowledgement that came without a pause since.
    round_began: Time,
    train_end: Time,
    /// Round-trip times in a row that show a queue, and that show a long one: a packet that was overtaken is late on its own.
    queued: u32,
    long_queued: u32,
    /// Conservative Slow Start began by a train.
    trained: bool,
}

/// What an acknowledgement means for slow start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The window may grow by so many bytes.
    Grow(u32),
    /// Slow start is over.
    Done,
}

impl HyStart {
    /// `acked` bytes were acknowledged, of `flight` that were outstanding; slow start would let the window grow by
    /// `growth`.
    pub(super) fn on_ack(
        &mut self,
        now: Time,
        acked: u32,
        flight: u32,
        growth: u32,
        rtt: Option<Duration>,
    ) -> Step {
        if self.round_left == 0 {
            (self.round_began, self.train_end) = (now, now);
            if self.begin_round(flight.saturating_sub(acked)) {
                return Step::Done;
            }
        } else {
            if (self.trained || self.conservative > 0) && self.is_long_queue(rtt) {
                return Step::Done;
            }
            // The delay may have shown first, but it falls again where what is in flight comes in pieces; a train is no accident.
            if !self.trained && self.is_long_train(now, rtt) {
                (self.trained, self.baseline_us) = (true, 0);
                self.conservative = CONSERVATIVE_ROUNDS;
            }
            self.round_left = self.round_left.saturating_sub(acked);
        }
        if let Some(rtt) = rtt {
            let rtt_us = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX).max(1);
            self.current_min_us = if self.samples == 0 { rtt_us } else { self.current_min_us.min(rtt_us) };
            self.min_us = if self.min_us == 0 { rtt_us } else { self.min_us.min(rtt_us) };
            self.samples += 1;
            self.judge();
        }
        Step::Grow(if self.conservative > 0 { growth / CONSERVATIVE_DIVISOR } else { growth })
    }

    /// A train that the path stretched comes with a queue at its end. Without one it was sent like that: after a recovery, for
    /// example, what is in flight is spread over the round trip.
    fn is_long_train(&mut self, now: Time, rtt: Option<Duration>) -> bool {
        let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        if micros(now.since(self.train_end)) > TRAIN_GAP_MIN_US.max(self.min_us / TRAIN_GAP_DIVISOR) {
            return false;
        }
        self.train_end = now;
        let long = micros(now.since(self.round_began)) >= self.min_us / 8 * TRAIN_EIGHTHS;
        if let Some(rtt) = rtt {
            let queue_min = TRAIN_QUEUE_MIN_US.max(self.min_us / TRAIN_QUEUE_DIVISOR);
            let late = micros(rtt) >= self.min_us.saturating_add(queue_min);
            self.queued = if late { self.queued + 1 } else { 0 };
        }
        long && self.queued >= SAMPLES_MIN && self.min_us >= TRAIN_RTT_MIN_US
    }

    /// The queue makes the round trip half as long again: as much as a window can shrink by without leaving the path idle.
    fn is_long_queue(&mut self, rtt: Option<Duration>) -> bool {
        if let Some(rtt) = rtt {
            let late = rtt.as_micros() >= u128::from(self.min_us / 2 * 3);
            self.long_queued = if late { self.long_queued + 1 } else { 0 };
        }
        self.long_queued >= SAMPLES_MIN && self.min_us >= TRAIN_RTT_MIN_US
    }

    /// True if that ends slow start.
    fn begin_round(&mut self, flight: u32) -> bool {
        self.round_left = flight;
        if self.samples > 0 {
            self.last_min_us = self.current_min_us;
        }
        self.samples = 0;
        if self.conservative > 0 {
            self.conservative -= 1;
            return self.conservative == 0;
        }
        false
    }

    fn judge(&mut self) {
        if self.samples < SAMPLES_MIN || self.last_min_us == 0 {
            return;
        }
        if self.conservative > 0 {
            // The delay fell again: it was not our queue.
            if self.current_min_us < self.baseline_us {
                self.conservative = 0;
            }
            return;
        }
        let threshold = (self.last_min_us / THRESHOLD_DIVISOR).clamp(THRESHOLD_MIN_US, THRESHOLD_MAX_US);
        if self.current_min_us >= self.last_min_us.saturating_add(threshold) {
            self.baseline_us = self.current_min_us;
            self.conservative = CONSERVATIVE_ROUNDS;
        }
    }
}
