//! Traffic counters of one direction of a flow, written by the task or thread that moves it and read by
//! another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Traffic counters in their own cache line (and its neighbour, which is fetched with it), so that another
/// flow's counters don't slow this one down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    bytes: AtomicU64,
    messages: AtomicU64,
    longest_pause_ns: AtomicU64,
}

impl Tally {
    /// Sets the totals. Only one task or thread does, so plain stores are enough: a locked instruction for
    /// each small message would show in the result.
    pub(crate) fn set(&self, bytes: u64, messages: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.messages.store(messages, Ordering::Relaxed);
    }

    /// Sets the longest time without received data.
    pub(crate) fn set_longest_pause(&self, pause: Duration) {
        self.longest_pause_ns.store(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn longest_pause(&self) -> Duration {
        Duration::from_nanos(self.longest_pause_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn count(&self) -> Count {
        Count { bytes: self.bytes.load(Ordering::Relaxed), messages: self.messages.load(Ordering::Relaxed) }
    }
}

/// Bytes and messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
}

impl Count {
    /// Returns the count since an earlier one.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            messages: self.messages.saturating_sub(earlier.messages),
        }
    }
}

impl std::iter::Sum for Count {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, next| Self {
            bytes: sum.bytes.saturating_add(next.bytes),
            messages: sum.messages.saturating_add(next.messages),
        })
    }
}

/// Returns the time of the monotonic clock.
#[allow(clippy::disallowed_methods, reason = "a throughput test measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
