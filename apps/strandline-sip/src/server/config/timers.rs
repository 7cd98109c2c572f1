//! `[timers]`: the timers of transactions.

use std::time::Duration;

use serde::Deserialize;

use crate::transaction::Timings;

use super::error::{ConfigError, wrong};

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

pub(super) fn check(file: &Table) -> Result<Timings, ConfigError> {
    let defaults = Timings::default();
    let millis = |key: &str, value: Option<u64>, default: Duration, max: u64| match value {
        None => Ok(default),
        Some(value) if (10..=max).contains(&value) => Ok(Duration::from_millis(value)),
        Some(value) => Err(wrong(format!("timers.{key}"), format!("{value} is not between 10 and {max}"))),
    };
    let t1 = millis("t1_ms", file.t1_ms, defaults.t1, 10_000)?;
    let t2 = millis("t2_ms", file.t2_ms, defaults.t2, 60_000)?;
    let t4 = millis("t4_ms", file.t4_ms, defaults.t4, 60_000)?;
    let c = file.c_secs.map_or(defaults.c, Duration::from_secs);
    if c < C_MIN {
        return Err(wrong("timers.c_secs", "must be more than 180"));
    }
    Ok(Timings { t1, t2, t4, c })
}

/// How long a hop may be silent before the next one is tried.
pub(super) fn check_failover(file: &Table) -> Result<Duration, ConfigError> {
    match file.failover_ms.unwrap_or(FAILOVER_MS) {
        millis @ 500..=32_000 => Ok(Duration::from_millis(millis)),
        millis => Err(wrong("timers.failover_ms", format!("{millis} is not between 500 and 32000"))),
    }
}
