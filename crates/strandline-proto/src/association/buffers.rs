//! Auto-tuned buffers, within the limits that all associations share.
//!
//! The receive window grows by what is read in a round-trip time, which [`Inbound`](crate::inbound::Inbound) handles;
//! the send buffer follows the congestion window. This module sets the maximum of both.

use super::Association;
use super::context::EndpointContext;
use crate::config::AssociationConfig;
use crate::inbound::share_queue;
use crate::path::{Path, PathSet, PathState};
use crate::stats::Buffers;
use crate::time::Time;

/// Number of congestion windows that an auto-tuned send buffer holds: one is in flight, one is kept until the lowest
/// loss in it is repaired, and one fills the next window.
const WINDOWS: u32 = 3;

/// On a short path the buffer holds one congestion window and this fraction.
const SHORT_PATH_DIVISOR: u32 = 8;

/// Minimum send buffer in bytes, even when all memory is in use.
const SEND_BUFFER_MIN: u32 = 64 << 10;

/// How full the buffers of all associations together are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Less than half: buffers may grow.
    Low,
    /// Half or more: buffers that grew return to their initial size.
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

impl EndpointContext {
    /// Returns the pressure on send buffers of all associations.
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

    /// Returns the current maximum of a receive buffer in bytes.
    #[inline]
    pub(crate) fn receive_buffer_max(&self, config: &AssociationConfig) -> u32 {
        match Pressure::of(self.memory.received_in_all(), self.config.receive_bytes_max) {
            Pressure::Low => config.receive_buffer_limit(),
            Pressure::Half | Pressure::Full => config.receive_buffer_start(),
        }
    }

    /// Records that bytes given to send were acknowledged, or failed.
    pub(super) fn on_send_bytes_gone(&mut self, bytes: usize) {
        self.memory.on_gone(bytes);
    }

    /// Returns the fill level and the limits of all buffers.
    pub(crate) fn buffers(&self) -> Buffers {
        Buffers {
            receive_bytes: self.memory.received(),
            receive_bytes_max: self.config.receive_bytes_max,
            send_bytes: self.memory.sent(),
            send_bytes_max: self.config.send_bytes_max,
        }
    }
}

/// Keeps the window that the next SACK advertises within the association's share of the carrier's receive queue.
#[inline]
pub(super) fn share_receive_queue(association: &mut Association, cx: &mut EndpointContext, now: Time) {
    if association.inbound.sack_pending() && cx.receive_queue.is_limited() {
        let path = association.paths.get(association.sack_path);
        // Two packets as large as the peer may send must fit: two are acknowledged at once, one only after a delay.
        let least = u32::try_from(2 * path.pmtu.largest_len()).unwrap_or(u32::MAX);
        share_queue(&mut association.inbound, now, &mut cx.receive_queue, path.rto.srtt(), least);
    }
}

/// Returns the size in bytes that a send buffer should have now. The peer has room for `peer_rwnd` more bytes.
#[cold]
pub(super) fn send_buffer(
    config: &AssociationConfig,
    paths: &PathSet,
    peer_rwnd: u32,
    pressure: Pressure,
) -> u32 {
    let start = config.send_buffer_start();
    if config.send_buffer.is_some() {
        return start;
    }
    match pressure {
        Pressure::Full => start.min(SEND_BUFFER_MIN),
        Pressure::Half => start,
        Pressure::Low => {
            let wanted = match config.extensions.multipath.is_on() && paths.has_several() {
                true => windows_of_all(paths),
                false => paths.iter().map(|(_, path)| windows(path, peer_rwnd)).max().unwrap_or(0),
            };
            let is_short = paths.iter().all(|(_, path)| path.is_short());
            let least = if is_short { start.min(SEND_BUFFER_MIN) } else { start };
            wanted.clamp(least, config.send_buffer_limit())
        }
    }
}

/// Returns the size in bytes that the path's window requires of the send buffer. If acknowledgements and repairs arrive
/// within microseconds, the next window is filled as the last one empties, and data that waits longer only leaves the
/// processor's cache. The peer's window may be smaller than the congestion window: it grows as fast as it is used.
fn windows(path: &Path, peer_rwnd: u32) -> u32 {
    let window = path.window();
    if path.is_short() {
        let window = window.min(path.flight.saturating_add(peer_rwnd));
        window.saturating_add(window / SHORT_PATH_DIVISOR)
    } else {
        window.saturating_mul(WINDOWS)
    }
}

/// Returns the size in bytes that all paths together require of the send buffer if they are used at once:
/// what each sends in the round-trip time of the slowest one, which holds the Cumulative TSN Ack Point back.
fn windows_of_all(paths: &PathSet) -> u32 {
    let active = || paths.iter().filter(|(_, path)| path.state == PathState::Active);
    let micros = |path: &Path| path.rto.srtt().map_or(0, |srtt| srtt.as_micros() as u64).max(1);
    let slowest = active().map(|(_, path)| micros(path)).max().unwrap_or(1);
    let of = |path: &Path| u64::from(path.window()) * slowest / micros(path);
    let all = active().fold(0_u64, |all, (_, path)| all.saturating_add(of(path)));
    u32::try_from(all.saturating_mul(WINDOWS.into())).unwrap_or(u32::MAX)
}
