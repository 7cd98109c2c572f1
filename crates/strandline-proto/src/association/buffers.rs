//! Buffers that tune themselves, within what all associations together may hold.
//!
//! The receive window grows by what is read in a round-trip time ([`Inbound`](crate::inbound::Inbound) sees to that); the
//! send buffer follows the congestion window. Both know how much at most from here.

use super::Association;
use super::context::Shared;
use crate::config::AssociationConfig;
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
    #[inline]
    pub(crate) fn send_pressure(&self) -> Pressure {
        Pressure::of(self.send_bytes, self.config.send_bytes_max)
    }

    /// What a receive buffer may be now, at most.
    #[inline]
    pub(crate) fn receive_buffer_max(&self, config: &AssociationConfig) -> u32 {
        match Pressure::of(self.received_bytes, self.config.receive_bytes_max) {
            Pressure::Low => config.receive_buffer_limit(),
            Pressure::Half | Pressure::Full => config.receive_buffer_start(),
        }
    }

    /// Bytes given to send were acknowledged, or failed.
    pub(super) fn on_send_bytes_gone(&mut self, bytes: usize) {
        self.send_bytes = self.send_bytes.saturating_sub(bytes as u64);
    }

    /// What all buffers hold.
    pub(crate) fn buffers(&self) -> Buffers {
        Buffers {
            receive_bytes: self.received_bytes,
            receive_bytes_max: self.config.receive_bytes_max,
            send_bytes: self.send_bytes,
            send_bytes_max: self.config.send_bytes_max,
        }
    }
}

impl Association {
    /// Bytes of the send buffer as it is now.
    pub(crate) fn send_buffer(&self, pressure: Pressure) -> u32 {
        let config = &self.config;
        let start = config.send_buffer_start();
        if config.send_buffer.is_some() {
            return start;
        }
        match pressure {
            Pressure::Full => start.min(SEND_BUFFER_MIN),
            Pressure::Half => start,
            Pressure::Low => {
                let window = self.paths.iter().map(|(_, path)| path.window()).max().unwrap_or(0);
                window.saturating_mul(WINDOWS).clamp(start, config.send_buffer_limit())
            }
        }
    }

    /// [`send_buffer`](Self::send_buffer), for a message of `len` bytes: looked at more closely only if the message needs it.
    #[inline]
    pub(super) fn send_buffer_for(&self, len: usize, pressure: Pressure) -> u32 {
        let start = self.config.send_buffer_start();
        let fits = self.outbound.buffered_bytes() + len <= start as usize;
        if fits && pressure == Pressure::Low { start } else { self.send_buffer(pressure) }
    }
}
