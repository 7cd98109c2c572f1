//! Data that is dropped for lack of room, or too early, and must come again before the peer may shut down
//! (RFC 9260 section 9.2).

use super::Inbound;
use super::tsn_map::JUMP_MAX;
use crate::number::Tsn;

/// True if a TSN lies beyond the cumulative one, and not so far that it must be of another time.
pub(crate) fn is_new(inbound: &Inbound, tsn: Tsn) -> bool {
    (1..=JUMP_MAX).contains(&tsn.distance_from(inbound.map.cumulative()))
}

/// Remembers the TSN of a chunk that is dropped: the peer has visibly sent it.
pub(crate) fn note_dropped(inbound: &mut Inbound, tsn: Tsn) {
    if is_new(inbound, tsn) && (tsn.is_after(inbound.dropped) || !is_new(inbound, inbound.dropped)) {
        inbound.dropped = tsn;
    }
}

/// Returns a value that changes when new data is accepted, or abandoned by the peer.
pub(crate) const fn progress(inbound: &Inbound) -> (Tsn, u32) {
    (inbound.map.cumulative(), inbound.window.used())
}
