//! Limits of a configuration (`[limits]`).

use std::time::Duration;

use strandline_ops::ConfigErrors;

use super::{file, seconds, wrong};
use crate::flow_limit::FlowsMax;

const ASSOCIATIONS_MAX: u32 = 64;
const CONNECTIONS_MAX: u32 = 20_000;
const CONNECTIONS_PER_SEC: u32 = 2_000;
/// Less would hold a single read for many seconds.
const BYTES_PER_SEC_MIN: u64 = 16 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const KEEPALIVE: Duration = Duration::from_secs(60);
/// The kernel takes no more (MAX_TCP_KEEPIDLE).
const KEEPALIVE_SECS_MAX: u32 = 32_767;
const BUFFER_MIB: u32 = 128;
/// As much as 8 associations may hold.
const BUFFER_TOTAL_MIB: u32 = 1024;
/// A terabyte.
const BUFFER_TOTAL_MIB_MAX: u32 = 1 << 20;

/// Limits of each peer, and of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) associations_max: u32,
    pub(crate) connections_max: u32,
    pub(crate) connections_per_sec: u32,
    /// Limit for the data of all connections of a peer, in each direction; 0: none.
    pub(crate) bytes_per_sec: u64,
    pub(crate) connect_timeout: Duration,
    /// Time without a packet after which a TCP connection is probed, for as long again; `None`: never.
    pub(crate) keepalive: Option<Duration>,
    /// Limit of the receive buffer of an association, and of its send buffer, which has another one besides.
    pub(crate) buffer_mib: u32,
    /// Limit of what all associations have received that is unread.
    pub(crate) buffer_total_mib: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            associations_max: ASSOCIATIONS_MAX,
            connections_max: CONNECTIONS_MAX,
            connections_per_sec: CONNECTIONS_PER_SEC,
            bytes_per_sec: 0,
            connect_timeout: CONNECT_TIMEOUT,
            keepalive: Some(KEEPALIVE),
            buffer_mib: BUFFER_MIB,
            buffer_total_mib: BUFFER_TOTAL_MIB,
        }
    }
}

/// Returns the limits of a peer's UDP flows: a quarter of its connections at the same time, and half of those
/// per second. They do not count as connections.
pub(crate) fn flows_max(connections_max: u32, connections_per_sec: u32) -> FlowsMax {
    FlowsMax { open: (connections_max / 4).max(1), per_sec: (connections_per_sec / 2).max(1) }
}

impl Limits {
    /// Returns the limits of UDP flows.
    pub(crate) fn flows_max(&self) -> FlowsMax {
        flows_max(self.connections_max, self.connections_per_sec)
    }

    /// Returns the limit of what all associations have received that is unread, in bytes.
    pub(crate) fn buffer_total_bytes(&self) -> u64 {
        u64::from(self.buffer_total_mib) << 20
    }
}

/// Checks the limits.
pub(super) fn check(limits: &file::Limits, errors: &mut ConfigErrors) -> Limits {
    let buffer_mib = limits.buffer_mib.unwrap_or(BUFFER_MIB);
    let is_buffer = (4..=1024).contains(&buffer_mib);
    if !is_buffer {
        errors.add(wrong("limits.buffer_mib", "a number from 4 to 1024"));
    }
    let buffer_total_mib = limits.buffer_total_mib.unwrap_or(BUFFER_TOTAL_MIB.max(buffer_mib));
    if is_buffer && !(buffer_mib..=BUFFER_TOTAL_MIB_MAX).contains(&buffer_total_mib) {
        let message = format!("a number from {buffer_mib}, that of `buffer_mib`, to {BUFFER_TOTAL_MIB_MAX}");
        errors.add(wrong("limits.buffer_total_mib", message));
    }
    let bytes_per_sec = limits.bytes_per_sec.unwrap_or(0);
    if bytes_per_sec != 0 && bytes_per_sec < BYTES_PER_SEC_MIN {
        let message = format!("a number from {BYTES_PER_SEC_MIN} on; 0: no limit");
        errors.add(wrong("limits.bytes_per_sec", message));
    }
    let keepalive = match limits.keepalive_secs {
        Some(KEEPALIVE_SECS_MAX..) => {
            let message = format!("a number below {KEEPALIVE_SECS_MAX}; 0: none");
            errors.add(wrong("limits.keepalive_secs", message));
            None
        }
        Some(0) => None,
        given => Some(given.map_or(KEEPALIVE, seconds)),
    };
    let mut at_least_one = |key: &str, value: Option<u32>, default| {
        if value == Some(0) {
            errors.add(wrong(key, "a number from 1 on"));
        }
        value.unwrap_or(default)
    };
    Limits {
        associations_max: at_least_one("limits.associations_max", limits.associations_max, ASSOCIATIONS_MAX),
        connections_max: at_least_one("limits.connections_max", limits.connections_max, CONNECTIONS_MAX),
        connections_per_sec: at_least_one(
            "limits.connections_per_sec",
            limits.connections_per_sec,
            CONNECTIONS_PER_SEC,
        ),
        bytes_per_sec,
        connect_timeout: limits.connect_timeout_secs.map_or(CONNECT_TIMEOUT, seconds),
        keepalive,
        buffer_mib,
        buffer_total_mib,
    }
}
