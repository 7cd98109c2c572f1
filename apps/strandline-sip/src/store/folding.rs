//! What is still to be folded: changes that a journal has and the table of bindings has not.

use std::collections::HashMap;

use crate::bindings::Journal;

/// Users folded at a time.
pub(super) const FOLD: usize = 2000;
/// Changed users from which on folding doesn't wait until nothing else is to do.
const FOLD_FROM: usize = 50_000;

/// Bytes of the journal from which on it doesn't wait either: a journal grows with each change, also of the same users.
const FOLD_FROM_BYTES: usize = 32 << 20;

/// A user and what it has, which may be nothing.
pub(super) type User = (Box<[u8]>, Vec<u8>);

/// Changes on their way from the journal into the table, a round at a time.
#[derive(Debug, Default)]
pub(super) struct Folding {
    /// What changed since this round began.
    changed: HashMap<Box<[u8]>, Vec<u8>>,
    /// What is left of this round.
    round: Vec<User>,
    /// Bytes of the journal since this round began.
    bytes: usize,
    /// The last entry of the journal that the round comes from.
    round_to: i64,
}

impl Folding {
    /// A change is in the journal.
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

    /// Changes are in the journal.
    pub(super) fn note_all(&mut self, changes: &Journal) {
        Journal::read(changes.as_bytes()).for_each(|(aor, state)| self.note(aor, state));
    }

    /// There is nothing to do.
    pub(super) fn is_done(&self) -> bool {
        self.round.is_empty() && self.changed.is_empty()
    }

    /// There is so much to do that it can't wait, or a round has begun.
    pub(super) fn is_due(&self) -> bool {
        self.changed.len() >= FOLD_FROM || self.bytes >= FOLD_FROM_BYTES || !self.round.is_empty()
    }

    /// Some users to be folded; if they are the last of a round, also up to which entry the journal is folded then. `last`
    /// is the last entry that there is.
    pub(super) fn take(&mut self, last: i64) -> (Vec<User>, Option<i64>) {
        if self.round.is_empty() {
            self.round = std::mem::take(&mut self.changed).into_iter().collect();
            // In the order of the table's keys, neighbours share pages.
            self.round.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
            self.round_to = last;
            self.bytes = 0;
        }
        let some = self.round.split_off(self.round.len().saturating_sub(FOLD));
        (some, self.round.is_empty().then_some(self.round_to))
    }

    /// What was taken could not be folded: it stays in the journal and comes again, unless it has changed since.
    pub(super) fn put_back(&mut self, some: Vec<User>) {
        for (aor, state) in some.into_iter().chain(self.round.drain(..)) {
            self.changed.entry(aor).or_insert(state);
        }
    }
}

#[cfg(test)]
mod tests;
