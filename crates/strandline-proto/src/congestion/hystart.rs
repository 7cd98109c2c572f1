//! HyStart++ (RFC 9406). Slow start ends when the round-trip time begins to grow, before the queue overflows. A few
//! rounds of slower growth follow in case the increase was temporary.
//!
//! The minimum round-trip time of a round comes from its first packets. A queue therefore shows one round late, when
//! the window has doubled again; on a long path that is a whole queue too much. On such paths the length of the train
//! of acknowledgements ends slow start as well, as in the original HyStart (Ha and Rhee, 2008, section 3.2): data
//! paced at four windows per round trip is acknowledged within a quarter of one, and takes longer only if the path
//! cannot carry that rate. The slower growth that follows ends as soon as the queue is half a round trip long.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Time;

/// Number of round-trip time samples needed to judge a round.
const SAMPLES_MIN: u32 = 8;
/// Bounds of the delay increase that ends slow start, in microseconds.
const THRESHOLD_MIN_US: u32 = 4_000;
const THRESHOLD_MAX_US: u32 = 16_000;
/// The delay increase that ends slow start is the minimum round-trip time of the previous round divided by this.
const THRESHOLD_DIVISOR: u32 = 8;
/// Divisor of the growth in Conservative Slow Start.
const CONSERVATIVE_DIVISOR: u32 = 4;
/// Number of rounds of Conservative Slow Start.
const CONSERVATIVE_ROUNDS: u8 = 5;
/// A train of acknowledgements of this length, in eighths of the minimum round-trip time, shows that the path is
/// full.
const TRAIN_EIGHTHS: u32 = 5;
/// Minimum round-trip time, in microseconds, for the train test. On shorter paths late pacing timers distort the
/// train.
const TRAIN_RTT_MIN_US: u32 = 10_000;
/// Minimum queueing delay at the end of a train that the path stretched: the larger of this, in microseconds, and the
/// minimum round-trip time over the divisor. It exceeds the delays of scheduling.
const TRAIN_QUEUE_MIN_US: u32 = 4_000;
const TRAIN_QUEUE_DIVISOR: u32 = 16;
/// Halves of the minimum round-trip time at which a queue is long: the round trip is longer by half.
const LONG_QUEUE_HALVES: u32 = 3;
/// Largest gap between two acknowledgements of a train: the larger of this, in microseconds, and the minimum
/// round-trip time over the divisor. At 100 Mbit/s an acknowledgement of 128 packets comes 15 ms after the one
/// before.
const TRAIN_GAP_MIN_US: u32 = 4_000;
const TRAIN_GAP_DIVISOR: u32 = 8;

/// The state of one slow start. A round ends when the bytes that were in flight at its start are acknowledged.
#[derive(Debug, Clone, Default)]
pub(super) struct HyStart {
    /// Bytes left to acknowledge in this round.
    round_left: u32,
    last_min_us: u32,
    current_min_us: u32,
    samples: u32,
    /// Remaining rounds of Conservative Slow Start (0 outside it), and the minimum round-trip time before it.
    conservative: u8,
    baseline_us: u32,
    /// The minimum round-trip time of all rounds, in microseconds; 0 if none was measured.
    min_us: u32,
    /// Start of the round, and the latest acknowledgement of the train that began with it.
    round_began: Time,
    train_end: Time,
    /// Numbers of consecutive round-trip times that show a queue, and that show a long queue. A single late packet
    /// may just have been overtaken.
    queued: u32,
    long_queued: u32,
    /// True if a train started Conservative Slow Start.
    trained: bool,
    /// The most bytes that were in flight in this round and in the one before it.
    flight_max: u32,
    last_flight_max: u32,
}

/// The effect of an acknowledgement on slow start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The window may grow by this many bytes.
    Grow(u32),
    /// Slow start is over.
    Done,
}

impl HyStart {
    /// Records the bytes in flight before an acknowledgement, and returns the most of this and the previous round:
    /// what the sender uses of its window (RFC 7661 section 4.1, pipeACK). The last acknowledgements of a flight find
    /// less than was in flight, although the window was used.
    pub(super) const fn flight_of_round(&mut self, flight: u32) -> u32 {
        if flight > self.flight_max {
            self.flight_max = flight;
        }
        if self.last_flight_max > self.flight_max { self.last_flight_max } else { self.flight_max }
    }

    /// Processes an acknowledgement of `acked` bytes out of `flight` outstanding ones. `growth` is the window growth
    /// in bytes that plain slow start would allow.
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
            // The delay may have shown the queue first, but it falls again when the flight is sent in bursts. A long
            // train is no coincidence.
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

    /// True if the path stretched the train of acknowledgements. Such a train has a queue at its end; without one the
    /// data was sent at that pace, for example after a recovery, which spreads the flight over the round trip.
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

    /// True if the queue lengthens the round trip by half. A reduction of the window by that much leaves no idle time
    /// on the path.
    fn is_long_queue(&mut self, rtt: Option<Duration>) -> bool {
        if let Some(rtt) = rtt {
            let late = rtt.as_micros() >= u128::from(self.min_us / 2 * LONG_QUEUE_HALVES);
            self.long_queued = if late { self.long_queued + 1 } else { 0 };
        }
        self.long_queued >= SAMPLES_MIN && self.min_us >= TRAIN_RTT_MIN_US
    }

    /// Begins a round. Returns true if slow start is over.
    fn begin_round(&mut self, flight: u32) -> bool {
        self.round_left = flight;
        (self.last_flight_max, self.flight_max) = (self.flight_max, flight);
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
            // The delay has fallen again: this flow did not cause the queue.
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
