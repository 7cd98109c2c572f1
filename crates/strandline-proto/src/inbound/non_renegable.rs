//! Which TSNs beyond a gap belong to messages that were delivered. An NR-SACK reports them as non-renegable
//! (draft-tuexen-tsvwg-sctp-multipath section 4.4.1, case 2). What waits for its turn is as renegable as in a SACK:
//! a full buffer may drop it, and its sender must be able to report it as failed if the association ends before.
//!
//! The record begins with the first NR-SACK that reports a gap. Fragments in I-DATA chunks are not recorded, except the
//! first of each message.

use std::collections::BTreeMap;

use super::tsn_map::{GapBlocks, Place, TsnMap};
use crate::number::Tsn;

/// Maximum number of fragmented messages that are remembered while they wait for their turn.
const WHOLE_MAX: usize = 4096;

/// The TSNs of messages that were delivered.
#[derive(Debug)]
pub(super) struct NonRenegable {
    map: TsnMap,
    /// The last TSNs of fragmented messages that arrived as a whole beyond a gap, by their first.
    whole: BTreeMap<u32, Tsn>,
}

impl NonRenegable {
    pub(super) fn new(cumulative: Tsn) -> Self {
        Self { map: TsnMap::new(cumulative.next()), whole: BTreeMap::new() }
    }

    /// Follows the cumulative TSN.
    pub(super) fn advance(&mut self, cumulative: Tsn) {
        self.map.skip_to(cumulative.next());
    }

    /// Follows the cumulative TSN, beyond which nothing has arrived.
    pub(super) fn catch_up(&mut self, cumulative: Tsn) {
        self.advance(cumulative);
        self.whole.clear();
    }

    /// Records that a fragmented message has arrived as a whole beyond a gap.
    pub(super) fn on_whole(&mut self, first: Tsn, last: Tsn) {
        if self.whole.len() < WHOLE_MAX {
            self.whole.insert(first.0, last);
        }
    }

    /// Forgets the messages with a TSN from `from` on, which may have been dropped: their fragments may
    /// arrive again one by one, and the first ones be delivered before the last ones are there.
    pub(super) fn on_dropped(&mut self, from: Tsn) {
        self.whole.retain(|_, last| last.is_before(from));
    }

    /// Records that a message that begins with a TSN, or a part of one, is readable.
    pub(super) fn on_delivered(&mut self, first: Tsn) {
        let last = self.whole.remove(&first.0).unwrap_or(first);
        for at in 0..=last.distance_from(first) {
            if self.map.place(first + at) == Place::Ahead {
                self.map.insert_ahead(first + at);
            }
        }
    }

    /// Returns the runs of recorded TSNs, lowest first.
    pub(super) fn blocks(&self) -> GapBlocks<'_> {
        self.map.gap_blocks()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.map.heap_bytes() + self.whole.len() * size_of::<(u32, Tsn)>()
    }
}
