//! Associations over which no SIP message has arrived. The oldest make way when there are too many.

use std::cell::RefCell;
use std::collections::BTreeSet;

/// The numbers of these associations; lower ones are older.
#[derive(Debug, Default)]
pub(super) struct Silent(RefCell<BTreeSet<u64>>);

impl Silent {
    /// Adds an association that a peer has set up.
    pub(super) fn add(&self, connection: u64) {
        self.0.borrow_mut().insert(connection);
    }

    /// Removes an association after its first message or its end.
    pub(super) fn remove(&self, connection: u64) {
        self.0.borrow_mut().remove(&connection);
    }

    /// Takes the oldest association, if its number is lower than `below`.
    pub(super) fn take_oldest(&self, below: u64) -> Option<u64> {
        let mut silent = self.0.borrow_mut();
        let oldest = silent.first().copied().filter(|oldest| *oldest < below)?;
        silent.remove(&oldest);
        Some(oldest)
    }
}
