//! Folding: moving changes from the journal into the table of bindings.

use std::collections::HashMap;

use crate::bindings::Journal;

/// Number of users folded in one step.
pub(super) const FOLD: usize = 2000;
/// Minimum number of users folded in a step that goes with a commit, and the number for each of the commit's changes:
/// a round ends long before as many changes are due again.
const FOLD_BESIDE_MIN: usize = 256;
const FOLD_BESIDE: usize = 2;
/// Number of changed users from which folding no longer waits for an idle store.
const FOLD_FROM: usize = 50_000;

/// Size of the journal, in bytes, from which folding no longer waits either. The journal grows with each
/// change, even of the same users.
const FOLD_FROM_BYTES: usize = 32 << 20;

/// A user and the user's state, which may be empty.
pub(super) type User = (Box<[u8]>, Vec<u8>);

/// The changes between the journal and the table, folded in rounds.
#[derive(Debug, Default)]
pub(super) struct Folding {
    /// Changes since the current round began.
    changed: HashMap<Box<[u8]>, Vec<u8>>,
    /// The remainder of the current round.
    round: Vec<User>,
    /// Bytes added to the journal since the current round began.
    bytes: usize,
    /// The number of the last journal entry that belongs to the round.
    round_to: i64,
}

impl Folding {
    /// Records a change that was added to the journal.
    pub(super) fn note(&mut self, aor: &[u8], state: &[u8]) {
        self.bytes += 8 + aor.len() + state.len();
        match self.changed.get_mut(aor) {
            Some(place) => {
                place.clear();
                place.extend_from_slice(state);
            }
            None => {
                self.changed.insert(aor.into(), state.into());
            }
        }
    }

    /// Records changes that were added to the journal.
    pub(super) fn note_all(&mut self, changes: &Journal) {
        Journal::read(changes.as_bytes()).for_each(|(aor, state)| self.note(aor, state));
    }

    /// Returns true if there is nothing to fold.
    pub(super) fn is_done(&self) -> bool {
        self.round.is_empty() && self.changed.is_empty()
    }

    /// Returns true if folding can't wait any longer, or a round has begun.
    pub(super) fn is_due(&self) -> bool {
        self.changed.len() >= FOLD_FROM || self.bytes >= FOLD_FROM_BYTES || !self.round.is_empty()
    }

    /// Takes some users to fold in the transaction of a commit with `changes` changes, if folding is due; see
    /// [`take`](Self::take).
    pub(super) fn take_beside(&mut self, last: i64, changes: usize) -> Option<(Vec<User>, Option<i64>)> {
        let count = (FOLD_BESIDE * changes).clamp(FOLD_BESIDE_MIN, FOLD);
        self.is_due().then(|| self.take(last, count))
    }

    /// Takes up to `count` users to fold. With the last users of a round, also returns the number of the journal entry
    /// up to which everything is then folded. `last` is the number of the last entry.
    pub(super) fn take(&mut self, last: i64, count: usize) -> (Vec<User>, Option<i64>) {
        if self.round.is_empty() {
            self.round = std::mem::take(&mut self.changed).into_iter().collect();
            // In the order of the table's keys, so that neighbours share pages.
            self.round.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
            self.round_to = last;
            self.bytes = 0;
        }
        let some = self.round.split_off(self.round.len().saturating_sub(count));
        (some, self.round.is_empty().then_some(self.round_to))
    }

    /// Returns users that could not be folded. They are taken again later, unless they have changed since.
    pub(super) fn put_back(&mut self, some: Vec<User>) {
        for (aor, state) in some.into_iter().chain(self.round.drain(..)) {
            self.changed.entry(aor).or_insert(state);
        }
    }
}

#[cfg(test)]
mod tests;
