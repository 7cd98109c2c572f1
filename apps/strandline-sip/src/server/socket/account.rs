//! What is kept for all connections together: half messages, and what waits to be written.

use std::cell::Cell;
use std::rc::Rc;

/// All of it, bytes.
#[derive(Debug, Default)]
pub(in crate::server) struct Account(Cell<usize>);

impl Account {
    pub(in crate::server) fn bytes(&self) -> usize {
        self.0.get()
    }
}

/// What is kept for one connection. It is given back with it.
#[derive(Debug)]
pub(super) struct Share {
    account: Rc<Account>,
    begun: Cell<usize>,
    pending: Cell<usize>,
}

impl Share {
    pub(super) fn of(account: &Rc<Account>) -> Self {
        Self { account: Rc::clone(account), begun: Cell::default(), pending: Cell::default() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.begun.get() + self.pending.get()
    }

    /// So much is kept of a message that isn't whole.
    pub(super) fn set_begun(&self, bytes: usize) {
        self.set(&self.begun, bytes);
    }

    /// So much waits to be written.
    pub(super) fn set_pending(&self, bytes: usize) {
        self.set(&self.pending, bytes);
    }

    fn set(&self, part: &Cell<usize>, bytes: usize) {
        let before = part.replace(bytes);
        if before != bytes {
            let all = &self.account.0;
            all.set((all.get() + bytes).saturating_sub(before));
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set_begun(0);
        self.set_pending(0);
    }
}

/// Those that are to go, the largest first, until no more than three quarters of `most` are kept: so it isn't looked for them
/// again at once. `shares` are of all.
pub(super) fn largest<T>(mut shares: Vec<(usize, T)>, bytes: usize, most: usize) -> Vec<T> {
    shares.sort_unstable_by_key(|(share, _)| core::cmp::Reverse(*share));
    let mut left = bytes;
    let goes = move |(share, _): &(usize, T)| {
        let on = left > most / 4 * 3;
        left = left.saturating_sub(*share);
        on
    };
    shares.into_iter().take_while(goes).map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests;
