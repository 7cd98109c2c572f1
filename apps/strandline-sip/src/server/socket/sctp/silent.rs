//! Associations over which no message of SIP has come: the oldest make way when there are too many.

use std::cell::RefCell;
use std::collections::BTreeSet;

/// Their numbers: a lower one is older.
#[derive(Debug, Default)]
pub(super) struct Silent(RefCell<BTreeSet<u64>>);

impl Silent {
    /// A peer has set one up.
    pub(super) fn add(&self, connection: u64) {
        self.0.borrow_mut().insert(connection);
    }

    /// A message has come, or it has ended.
    pub(super) fn remove(&self, connection: u64) {
        self.0.borrow_mut().remove(&connection);
    }

    /// Takes the oldest, if its number is lower than this.
    pub(super) fn take_oldest(&self, below: u64) -> Option<u64> {
        let mut silent = self.0.borrow_mut();
        let oldest = silent.first().copied().filter(|oldest| *oldest < below)?;
        silent.remove(&oldest);
        Some(oldest)
    }
}
