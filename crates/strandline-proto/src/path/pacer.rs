//! Pacing: data is sent at a rate instead of in bursts of a window. A batch lasts a millisecond or more, so that
//! timers of that resolution suffice and the carrier gets bursts that it can hand to the kernel in one call. Saved
//! tokens make up for late timers.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Time;

/// Minimum duration of a batch.
const BATCH: Duration = Duration::from_millis(1);

/// Maximum duration of saved tokens: timers may be late by two ticks.
const SAVED: Duration = Duration::from_millis(4);

/// Maximum delay that a host which stood still makes up for. The queue of the path has drained meanwhile.
const LATE_MAX: Duration = Duration::from_millis(16);

/// Minimum number of packets of saved tokens.
const SAVED_PACKETS: u32 = 10;

/// Pacing gains in fifths of a window per round trip. Congestion avoidance is a fifth faster than the window, so that
/// the window is the limit and not the rate. Slow start sends two packets for each acknowledged one within the round
/// trip, and a delay in one round trip delays all later ones.
const FIFTHS: u64 = 6;
const SLOW_START_FIFTHS: u64 = 20;

const MICROS_PER_SECOND: u64 = 1_000_000;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Minimum number of packets in a batch.
const BATCH_PACKETS: u32 = 2;

/// The pacing state of one path. Bytes are those of DATA chunks, including headers and padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pacer {
    /// Bytes that may be sent now. Negative if the last packet exceeded the tokens.
    tokens: i64,
    /// When `tokens` was last updated; `Time::MAX` if there is no rate.
    at: Time,
    /// When the next batch may be sent; `Time::MAX` if none waits.
    release: Time,
}

/// Returns the bytes that a rate in bytes per second yields in a time.
fn bytes_in(rate: u64, time: Duration) -> i64 {
    let bytes = u128::from(rate) * time.as_nanos() / NANOS_PER_SECOND;
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Pacer {
    pub(super) const fn new() -> Self {
        Self { tokens: 0, at: Time::MAX, release: Time::MAX }
    }

    /// Returns the pacing rate, in bytes per second, for a window of `window` bytes if the controller has none of its
    /// own.
    pub(super) fn rate_of(window: u32, slow_start: bool, srtt: Duration) -> u64 {
        let fifths = if slow_start { SLOW_START_FIFTHS } else { FIFTHS };
        (u64::from(window) * fifths * (MICROS_PER_SECOND / 5) / (srtt.as_micros() as u64).max(1)).max(1)
    }

    /// Updates the tokens. `rate` is in bytes per second, or `None` without pacing. `late` extends the duration of
    /// the saved tokens.
    #[inline]
    pub(super) fn refill(&mut self, now: Time, rate: Option<u64>, pmdcs: u32, late: Duration) {
        let Some(rate) = rate else {
            self.at = Time::MAX;
            self.release = Time::MAX;
            return;
        };
        let saved = bytes_in(rate, SAVED + late).max(i64::from(pmdcs.saturating_mul(SAVED_PACKETS)));
        let earned = if self.at == Time::MAX { saved } else { bytes_in(rate, now.since(self.at)) };
        // An interval that earns less than a byte must not lose its fraction.
        if earned > 0 {
            self.tokens = self.tokens.saturating_add(earned);
            self.at = now;
        }
        // Apply the limit in any case: a loss may just have lowered the rate, and the limit with it.
        self.tokens = self.tokens.min(saved);
    }

    /// True if time has passed since `tokens` was last updated.
    #[inline]
    pub(super) fn is_behind(&self, now: Time) -> bool {
        self.at < now
    }

    /// Clears the pace timer if it is due. Returns how late it is, at most `LATE_MAX`.
    pub(super) fn on_timer(&mut self, now: Time) -> Duration {
        if self.release > now {
            return Duration::ZERO;
        }
        let late = now.since(self.release).min(LATE_MAX);
        self.clear();
        late
    }

    /// True if a packet may be sent.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        self.tokens > 0 || self.at == Time::MAX
    }

    /// Returns the bytes that may be sent at once; `None` without a limit.
    pub(super) fn allowance(&self) -> Option<u32> {
        (self.at != Time::MAX).then(|| u32::try_from(self.tokens.max(0)).unwrap_or(u32::MAX))
    }

    #[inline]
    pub(super) fn on_sent(&mut self, bytes: u32) {
        if self.at != Time::MAX {
            self.tokens -= i64::from(bytes);
        }
    }

    /// Schedules the next batch if pacing alone holds back waiting data.
    pub(super) fn wait(&mut self, rate: Option<u64>, pmdcs: u32) {
        let Some(rate) = rate.filter(|_| !self.may_send()) else { return };
        let batch = bytes_in(rate, BATCH).max(i64::from(pmdcs.saturating_mul(BATCH_PACKETS)));
        let missing = u128::try_from(batch.saturating_sub(self.tokens)).unwrap_or(0);
        let nanos = missing * NANOS_PER_SECOND / u128::from(rate.max(1));
        self.release = self.at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 4));
    }

    /// Returns when the next batch may be sent.
    #[inline]
    pub(super) fn deadline(&self) -> Time {
        self.release
    }

    /// True if pacing has held data back since the last batch.
    pub(super) fn holds(&self) -> bool {
        self.release != Time::MAX
    }

    /// Clears the pace timer, because it fired or nothing waits.
    pub(super) fn clear(&mut self) {
        self.release = Time::MAX;
    }
}
