//! The clock of time-outs, rates and logs.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// Returns the present.
#[allow(clippy::disallowed_methods, reason = "time-outs and rates of the network")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the time since 1970.
#[allow(clippy::disallowed_methods, reason = "the time of day for logs and metrics")]
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
