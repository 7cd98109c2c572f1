//! Gathers room for trains of packets on short paths.
//!
//! A carrier sends a train of packets of one size in one call, and the receiver acknowledges it with one
//! SACK. With many associations on one host, each SACK finds the others' packets in front of it. If every
//! SACK were answered at once with as many packets as it acknowledged, trains would become shorter with each
//! loss, and never longer again. So new data waits until a good part of the window is free, as TCP's
//! segmentation offload does (`tcp_tso_win_divisor` of Linux).

use super::{Association, State};
use crate::config::Recovery;
use crate::congestion::Algorithm;
use crate::path::allow_train;
use crate::path_index::PathIndex;

/// A train needs this fraction of the window.
const WINDOW_DIVISOR: u32 = 2;

/// Largest train to wait for in bytes: what a carrier sends in one call.
const TRAIN_MAX: u32 = 60_000;

/// Smallest window in packets to be gathered in: half of it is still a train. A smaller one fills the path
/// only if every SACK is answered at once.
const WINDOW_MIN: u32 = 24;

/// True if new data waits for a SACK that makes room for a train. Then half of the window is in flight, so
/// that one will come without a timer of the receiver, and nothing is lost or retransmitted as far as is
/// known.
pub(super) fn gathers(association: &mut Association, index: PathIndex) -> bool {
    let path = association.paths.get(index);
    let applies = matches!(association.state, State::Established)
        && association.config.recovery == Recovery::Rack
        && path.congestion.algorithm() != Algorithm::Rfc9260
        && path.is_short()
        && path.pacing_rate().is_none()
        && !path.is_recovering()
        && !path.probes_with_new()
        && !path.frto_packets.is_some()
        && !association.outbound.has_retransmissions()
        && !association.paths.has_several();
    if !applies {
        association.flags.gathering = false;
        return false;
    }
    let flight = path.flight;
    let whole = path.window().min(flight.saturating_add(association.outbound.peer_rwnd()));
    let open = whole.saturating_sub(flight);
    let waits = open < (whole / WINDOW_DIVISOR).min(TRAIN_MAX)
        && whole >= WINDOW_MIN * path.data_chunk_len_max()
        && association.outbound.pending_bytes() >= open as usize;
    association.flags.gathering |= waits;
    waits
}

/// Allows a burst as large as the room that was gathered. It replaces what the SACKs since then acknowledged.
pub(super) fn allow_gathered(association: &mut Association, index: PathIndex) {
    if core::mem::take(&mut association.flags.gathering) {
        allow_train(association.paths.get_mut(index), TRAIN_MAX);
    }
}
