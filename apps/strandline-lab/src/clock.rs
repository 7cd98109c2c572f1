//! The clocks, for how long things take and when they were done.
#![allow(clippy::disallowed_methods, reason = "a program that measures reads the clock")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Now, for durations.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
