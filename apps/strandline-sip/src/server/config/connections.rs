//! `[connections]`: timeouts and buffers of connections.

use std::time::Duration;

use serde::Deserialize;

use crate::server::socket::ConnectionLimits;

use super::error::{ConfigError, wrong};

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

pub(super) fn check(file: &Table) -> Result<ConnectionLimits, ConfigError> {
    let defaults = ConnectionLimits::default();
    let secs = |key: &str, value: Option<u64>, default: Duration| match value {
        None => Ok(default),
        Some(secs @ 5..=32_767) => Ok(Duration::from_secs(secs)),
        Some(secs) => Err(wrong(format!("connections.{key}"), format!("{secs} is not between 5 and 32767"))),
    };
    let idle = match file.idle_secs {
        Some(0) => None,
        None => defaults.idle,
        some => Some(secs("idle_secs", some, Duration::ZERO)?),
    };
    let buffered_bytes_max = file.buffered_bytes_max.unwrap_or(defaults.buffered_bytes_max);
    if buffered_bytes_max < BUFFERED_MIN {
        let message = format!("{buffered_bytes_max} is less than the minimum of {BUFFERED_MIN}");
        return Err(wrong("connections.buffered_bytes_max", message));
    }
    Ok(ConnectionLimits {
        first_message: secs("first_message_secs", file.first_message_secs, defaults.first_message)?,
        idle,
        keep_alive: secs("keep_alive_secs", file.keep_alive_secs, defaults.keep_alive)?,
        write: secs("write_secs", file.write_secs, defaults.write)?,
        buffered_bytes_max,
    })
}

#[cfg(test)]
mod tests;
