//! Buffers that tune themselves, within what all associations together may hold.
//!
//! The receive window grows by what is read in a round-trip time ([`Inbound`](crate::inbound::Inbound) sees to that); the
//! send buffer follows the congestion window. Both know how much at most from here.

use super::context::Shared;
use crate::config::AssociationConfig;
use crate::path::{Path, PathSet};
use crate::stats::Buffers;

/// A send buffer that tunes itself holds so many congestion windows: one is in flight, one is kept until the lowest loss
/// in it is repaired, and from one the next is filled.
const WINDOWS: u32 = 3;

/// With all memory in use an association still may send so many bytes ahead.
const SEND_BUFFER_MIN: u32 = 64 << 10;

/// How full the buffers of all associations together are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Less than half: buffers grow.
    Low,
    /// Buffers that grew go back to their start.
    Half,
    /// The limit is reached.
    Full,
}

impl Pressure {
    fn of(bytes: u64, bytes_max: u64) -> Self {
        if bytes < bytes_max / 2 {
            Self::Low
        } else if bytes < bytes_max {
            Self::Half
        } else {
            Self::Full
        }
    }
}

impl Shared {
    /// What holds for sending in all associations.
    #[inline]
    pub(crate) fn send_pressure(&self) -> Pressure {
        if self.memory.sent_in_all() < self.config.send_bytes_max / 2 {
            Pressure::Low
        } else {
            self.high_send_pressure()
        }
    }

    #[cold]
    fn high_send_pressure(&self) -> Pressure {
        Pressure::of(self.memory.sent_in_all(), self.config.send_bytes_max)
    }

    /// What a receive buffer may be now, at most.
    #[inline]
    pub(crate) fn receive_buffer_max(&self, config: &AssociationConfig) -> u32 {
        match Pressure::of(self.memory.received_in_all(), self.config.receive_bytes_max) {
            Pressure::Low => config.receive_buffer_limit(),
            Pressure::Half | Pressure::Full => config.receive_buffer_start(),
        }
    }

    /// Bytes given to send were acknowledged, or failed.
    pub(super) fn on_send_bytes_gone(&mut self, bytes: usize) {
        self.memory.on_gone(bytes);
    }

    /// What all buffers hold.
    pub(crate) fn buffers(&self) -> Buffers {
        Buffers {
            receive_bytes: self.memory.received(),
            receive_bytes_max: self.config.receive_bytes_max,
            send_bytes: self.memory.sent(),
            send_bytes_max: self.config.send_bytes_max,
        }
    }
}

/// Bytes of a send buffer as it should be now.
#[cold]
pub(super) fn send_buffer(config: &AssociationConfig, paths: &PathSet, pressure: Pressure) -> u32 {
    let start = config.send_buffer_start();
    if config.send_buffer.is_some() {
        return start;
    }
    match pressure {
        Pressure::Full => start.min(SEND_BUFFER_MIN),
        Pressure::Half => start,
        Pressure::Low => {
            let wanted = paths.iter().map(|(_, path)| windows(path)).max().unwrap_or(0);
            wanted.clamp(start, config.send_buffer_limit())
        }
    }
}

/// What the path's congestion window asks of the send buffer, in bytes. Where acknowledgements and repairs come within
/// microseconds the next window is filled as the last one empties: what waits longer only leaves the processor's cache.
fn windows(path: &Path) -> u32 {
    let window = path.window();
    if path.is_short() { window.saturating_add(window / 8) } else { window.saturating_mul(WINDOWS) }
}
