//! Clocks: a monotonic one for durations, and the wall clock.
#![allow(clippy::disallowed_methods, reason = "a program that measures reads the clock")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Returns the current instant, for measuring durations.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
