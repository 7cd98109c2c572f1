//! Reneging: a full receive buffer drops what it holds of the highest TSNs, to accept a chunk that fills a
//! gap below them (RFC 9260 section 6.2). Otherwise such chunks would be accepted one for each of the peer's
//! time-outs.
//!
//! Only data that is held for reordering can go: fragments beyond a gap, and messages beyond a gap that wait for their
//! turn. What is readable, or was read, stays acknowledged. Dropped TSNs are no longer reported, and count as missing.

use super::Inbound;
use super::dropped;
use super::nr_report::note_dropped;
use super::tsn_map::{AHEAD_MAX, TsnMap};
use super::window::Window;
use crate::number::Tsn;

/// Fraction of the buffer that is freed at a time. Finding the highest TSNs costs time for all that is held, and this
/// many bytes must arrive before it is done again.
const ROOM_DIVISOR: u32 = 16;

/// Number of held chunks that may be looked at in vain for each chunk that arrives: a peer can arrange that
/// what it sends is above everything that could go.
const LOOKED_AT_MAX: usize = 64;

/// What is dropped, and where that is recorded.
pub(super) struct DroppedTsns<'a> {
    /// The lowest TSN that is dropped.
    pub(super) from: Tsn,
    pub(super) map: &'a mut TsnMap,
    pub(super) window: &'a mut Window,
}

impl DroppedTsns<'_> {
    /// True if a chunk with this TSN is dropped, if it is held.
    pub(super) fn takes(&self, tsn: Tsn) -> bool {
        let ahead = |tsn: Tsn| tsn.distance_from(self.map.cumulative());
        (ahead(self.from)..=AHEAD_MAX).contains(&ahead(tsn)) && self.map.contains(tsn)
    }

    /// Records that a chunk, for which the window was charged `cost`, is dropped.
    pub(super) fn on_dropped(&mut self, tsn: Tsn, cost: usize) {
        self.map.remove(tsn);
        self.window.release(cost);
    }
}

/// Makes room for a chunk that fills a gap, by dropping chunks with higher TSNs. Returns false without a
/// change if these are not enough.
#[cold]
#[inline(never)]
pub(super) fn make_room(inbound: &mut Inbound, tsn: Tsn) -> bool {
    if !inbound.window.may_search_room() {
        return false;
    }
    let mut looked_at = 0;
    let Some(from) = lowest_to_drop(inbound, tsn, &mut looked_at) else {
        inbound.window.skip_searches(looked_at / LOOKED_AT_MAX);
        return false;
    };
    let highest = inbound.map.highest();
    dropped::note_dropped(inbound, highest);
    let Inbound { map, window, reassembly, order, .. } = inbound;
    let mut what = DroppedTsns { from, map, window };
    reassembly.renege(&mut what);
    order.renege(&mut what);
    if let Some(interleaved) = order.interleaved_mut() {
        interleaved.renege(&mut what);
    }
    note_dropped(inbound, from);
    inbound.window.takes_missing()
}

/// Returns the TSN, above `tsn`, from which on what is held must go. `None` if that would make no room.
/// Counts what it has `looked_at`.
fn lowest_to_drop(inbound: &Inbound, tsn: Tsn, looked_at: &mut usize) -> Option<Tsn> {
    let needed = inbound.window.excess() as usize + 1;
    let wanted = needed + (inbound.window.size() / ROOM_DIVISOR) as usize;
    let cumulative = inbound.map.cumulative();
    let least = tsn.distance_from(cumulative) + 1;
    // Distances beyond the cumulative TSN, and costs.
    let mut held: Vec<(u32, usize)> = Vec::new();
    let mut add = |tsn: Tsn, cost: usize| {
        *looked_at += 1;
        let ahead = tsn.distance_from(cumulative);
        if (least..=AHEAD_MAX).contains(&ahead) {
            held.push((ahead, cost));
        }
    };
    inbound.reassembly.each_beyond(&mut add);
    inbound.order.each_waiting(&mut add);
    if let Some(interleaved) = inbound.order.interleaved() {
        interleaved.each_beyond(&mut add);
    }
    held.sort_unstable_by_key(|(ahead, _)| core::cmp::Reverse(*ahead));
    let mut sum = 0;
    let enough = held.iter().find(|(_, cost)| {
        sum += cost;
        sum >= wanted
    });
    let lowest = enough.or(held.last().filter(|_| sum >= needed));
    lowest.map(|(ahead, _)| cumulative + *ahead)
}
