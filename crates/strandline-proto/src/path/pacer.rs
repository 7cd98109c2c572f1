//! Pacing: data goes at a rate instead of in bursts as large as a window. What may go at once is a batch of a millisecond
//! or more, so that a timer of that grain is enough and the carrier gets bursts that it can hand to the kernel in one
//! piece. What comes late by such a timer is made good by what has been saved up meanwhile.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Time;

/// What a batch lasts, at least.
const BATCH: Duration = Duration::from_millis(1);

/// What can be saved up lasts so long: timers may be late by two of their ticks.
const SAVED: Duration = Duration::from_millis(4);

/// A host that stood still makes that good, up to this: what it would have sent has left the queue of the path meanwhile.
const LATE_MAX: Duration = Duration::from_millis(16);

/// Packets that can be saved up, at least.
const SAVED_PACKETS: u32 = 10;

/// Fifths of a window in each round trip at which a window is sent: as much faster than one as it takes for the window, not the
/// rate, to be the limit. In slow start it is replaced by twice as much within the round trip, and what is sent late in one
/// is late in all that follow.
const FIFTHS: u64 = 6;
const SLOW_START_FIFTHS: u64 = 20;

/// Packets of a batch, at least.
const BATCH_PACKETS: u32 = 2;

/// The pacing of one path. Bytes of DATA chunks, headers and padding included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pacer {
    /// May be sent now; below 0: the last packet was longer than what was left.
    credit: i64,
    /// When `credit` was brought up to date; `Time::MAX`: there is no rate.
    at: Time,
    /// When the next batch may go; `Time::MAX`: nothing waits for one.
    release: Time,
}

/// Bytes that a rate in bytes a second makes in a time.
fn bytes_in(rate: u64, time: Duration) -> i64 {
    let bytes = u128::from(rate) * time.as_nanos() / 1_000_000_000;
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Pacer {
    pub(super) const fn new() -> Self {
        Self { credit: 0, at: Time::MAX, release: Time::MAX }
    }

    /// The rate, in bytes a second, for a window of so many bytes where the controller names none.
    pub(super) fn rate_of(window: u32, slow_start: bool, srtt: Duration) -> u64 {
        let fifths = if slow_start { SLOW_START_FIFTHS } else { FIFTHS };
        (u64::from(window) * fifths * 200_000 / (srtt.as_micros() as u64).max(1)).max(1)
    }

    /// Time has passed: brings up to date what may be sent. `rate` in bytes a second; `None`: there is no pacing. `late`: so
    /// much more can be saved up.
    #[inline]
    pub(super) fn refill(&mut self, now: Time, rate: Option<u64>, pmdcs: u32, late: Duration) {
        let Some(rate) = rate else {
            self.at = Time::MAX;
            self.release = Time::MAX;
            return;
        };
        let saved = bytes_in(rate, SAVED + late).max(i64::from(pmdcs.saturating_mul(SAVED_PACKETS)));
        let earned = if self.at == Time::MAX { saved } else { bytes_in(rate, now.since(self.at)) };
        // Less than a byte's time: the fraction would be lost again and again.
        if earned > 0 {
            self.credit = self.credit.saturating_add(earned);
            self.at = now;
        }
        // In any case: a loss of this moment has made the rate smaller, and what was saved up with it.
        self.credit = self.credit.min(saved);
    }

    /// Time has passed since `credit` was brought up to date.
    #[inline]
    pub(super) fn is_behind(&self, now: Time) -> bool {
        self.at < now
    }

    /// The timer runs, or would have: how late it is for the batch that waited, as far as that is to be made good.
    pub(super) fn on_timer(&mut self, now: Time) -> Duration {
        if self.release > now {
            return Duration::ZERO;
        }
        let late = now.since(self.release).min(LATE_MAX);
        self.clear();
        late
    }

    /// A packet may go.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        self.credit > 0 || self.at == Time::MAX
    }

    /// What may be sent at once; `None`: any amount.
    pub(super) fn allowance(&self) -> Option<u32> {
        (self.at != Time::MAX).then(|| u32::try_from(self.credit.max(0)).unwrap_or(u32::MAX))
    }

    #[inline]
    pub(super) fn on_sent(&mut self, bytes: u32) {
        if self.at != Time::MAX {
            self.credit -= i64::from(bytes);
        }
    }

    /// Data waits, and nothing but pacing holds it back: sets when the next batch goes.
    pub(super) fn wait(&mut self, rate: Option<u64>, pmdcs: u32) {
        let Some(rate) = rate.filter(|_| !self.may_send()) else { return };
        let batch = bytes_in(rate, BATCH).max(i64::from(pmdcs.saturating_mul(BATCH_PACKETS)));
        let missing = u128::try_from(batch.saturating_sub(self.credit)).unwrap_or(0);
        let nanos = missing * 1_000_000_000 / u128::from(rate.max(1));
        self.release = self.at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 4));
    }

    /// When the next batch goes.
    #[inline]
    pub(super) fn deadline(&self) -> Time {
        self.release
    }

    /// Something was held back since the last batch went.
    pub(super) fn holds(&self) -> bool {
        self.release != Time::MAX
    }

    /// The timer has run, or nothing waits any more.
    pub(super) fn clear(&mut self) {
        self.release = Time::MAX;
    }
}
