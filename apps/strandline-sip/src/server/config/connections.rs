//! `[connections]`: timeouts and buffers of connections.

use std::time::Duration;

use serde::Deserialize;

use crate::server::socket::ConnectionLimits;

use super::error::{ConfigErrors, in_range, wrong};

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    first_message_secs: Option<u64>,
    idle_secs: Option<u64>,
    keep_alive_secs: Option<u64>,
    write_secs: Option<u64>,
    buffered_bytes_max: Option<usize>,
}

/// Minimum for the buffers of all connections, in bytes: enough for one connection with messages of usual
/// limits.
const BUFFERED_MIN: usize = 1 << 20;

pub(super) fn check(file: &Table, errors: &mut ConfigErrors) -> ConnectionLimits {
    let defaults = ConnectionLimits::default();
    let mut secs = |key: &str, value: Option<u64>, default: Duration| {
        let secs = in_range(&format!("connections.{key}"), value, default.as_secs(), 5..=32_767, errors);
        Duration::from_secs(secs)
    };
    let idle = match file.idle_secs {
        Some(0) => None,
        None => defaults.idle,
        some => Some(secs("idle_secs", some, Duration::ZERO)),
    };
    let mut limits = ConnectionLimits {
        first_message: secs("first_message_secs", file.first_message_secs, defaults.first_message),
        idle,
        keep_alive: secs("keep_alive_secs", file.keep_alive_secs, defaults.keep_alive),
        write: secs("write_secs", file.write_secs, defaults.write),
        buffered_bytes_max: defaults.buffered_bytes_max,
    };
    match file.buffered_bytes_max {
        Some(bytes) if bytes < BUFFERED_MIN => {
            let message = format!("{bytes} is less than the minimum of {BUFFERED_MIN}");
            errors.add(wrong("connections.buffered_bytes_max", message));
        }
        given => limits.buffered_bytes_max = given.unwrap_or(limits.buffered_bytes_max),
    }
    limits
}

#[cfg(test)]
mod tests;
