//! Accounts for the memory of all connections: incomplete messages, and bytes that wait to be written.

use std::cell::Cell;
use std::rc::Rc;

/// The total in bytes.
#[derive(Debug, Default)]
pub(in crate::server) struct Account(Cell<usize>);

impl Account {
    pub(in crate::server) fn bytes(&self) -> usize {
        self.0.get()
    }
}

/// The bytes kept for one connection, which leave the account when this is dropped.
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

    /// Sets the number of bytes kept of an incomplete message.
    pub(super) fn set_begun(&self, bytes: usize) {
        self.set(&self.begun, bytes);
    }

    /// Sets the number of bytes that wait to be written.
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

/// The connections to close, the largest first, so that at most three quarters of `most` bytes remain and the
/// next search isn't due at once. `shares` lists all connections.
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
