//! Resets of all numbers (RFC 6525): the TSNs that a response names.

use std::collections::BTreeSet;

use strandline_wire::parameter::re_config::{Combination, ReConfigParameter, ResultCode};
use strandline_wire::{Chunk, RawChunk, Tsn};

/// The TSNs that may follow resets.
#[derive(Debug, Default)]
pub(super) struct Renumbered {
    next: Vec<Tsn>,
    /// Responses so far, by direction and number: one that is repeated, or replayed later, names nothing new.
    seen: BTreeSet<(bool, u32)>,
}

impl Renumbered {
    /// Records the responses in a packet that is sent (`departs`) or arrives.
    pub(super) fn on_chunks<'a>(&mut self, chunks: impl Iterator<Item = RawChunk<'a>>, departs: bool) {
        for chunk in chunks {
            let Ok(Chunk::ReConfig(re_config)) = chunk.parse() else { continue };
            let Ok(combination) = Combination::of(re_config.parameters) else { continue };
            for parameter in combination.iter() {
                let ReConfigParameter::Response(response) = parameter else { continue };
                if let (Some(next), ResultCode::PERFORMED) = (response.next_tsns, response.result)
                    && self.seen.insert((departs, response.response.0))
                {
                    let next = if departs { next.sender } else { next.receiver };
                    self.next.retain(|known| *known != next);
                    self.next.push(next);
                }
            }
        }
    }

    /// Records that numbers begin anew at this TSN, though no packet has said so yet.
    pub(super) fn expect(&mut self, next: Tsn) {
        self.next.push(next);
    }

    /// Returns true once if a response named this TSN as the next one.
    pub(super) fn take(&mut self, tsn: Tsn) -> bool {
        // Resets before that one are over.
        let at = self.next.iter().position(|next| *next == tsn);
        self.next.drain(..at.map_or(0, |at| at + 1));
        at.is_some()
    }

    /// True if a response named a TSN that has not been used.
    pub(super) fn awaits(&self) -> bool {
        !self.next.is_empty()
    }
}
