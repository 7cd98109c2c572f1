//! `[timers]`: the timers of transactions.

use std::time::Duration;

use serde::Deserialize;

use crate::transaction::Timings;

use super::error::{ConfigErrors, in_range, wrong};

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    t1_ms: Option<u64>,
    t2_ms: Option<u64>,
    t4_ms: Option<u64>,
    c_secs: Option<u64>,
    failover_ms: Option<u64>,
}

/// Minimum of timer C, which must exceed three minutes (RFC 3261 section 16.6, step 11).
const C_MIN: Duration = Duration::from_secs(181);
/// Default for how long a hop may be silent before the next one is tried, in milliseconds.
const FAILOVER_MS: u64 = 4000;

pub(super) fn check(file: &Table, errors: &mut ConfigErrors) -> Timings {
    let defaults = Timings::default();
    let mut millis = |key: &str, value: Option<u64>, default: Duration, max: u64| {
        Duration::from_millis(in_range(key, value, default.as_millis() as u64, 10..=max, errors))
    };
    let t1 = millis("timers.t1_ms", file.t1_ms, defaults.t1, 10_000);
    let t2 = millis("timers.t2_ms", file.t2_ms, defaults.t2, 60_000);
    let t4 = millis("timers.t4_ms", file.t4_ms, defaults.t4, 60_000);
    let c = file.c_secs.map_or(defaults.c, Duration::from_secs);
    if c < C_MIN {
        errors.add(wrong("timers.c_secs", "must be more than 180"));
    }
    Timings { t1, t2, t4, c }
}

/// How long a hop may be silent before the next one is tried.
pub(super) fn check_failover(file: &Table, errors: &mut ConfigErrors) -> Duration {
    let range = 500..=32_000;
    Duration::from_millis(in_range("timers.failover_ms", file.failover_ms, FAILOVER_MS, range, errors))
}
