//! What can't be read of a store: each place is logged, and all are counted.

use crate::bindings::{Fault, Journal};

/// Events in the log for one reading of a store: the rest is counted, and their number is logged at the end.
const EVENTS_MAX: u64 = 20;

/// What can't be read of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Damage {
    /// Rows that are damaged: entries of a journal, and users with something that is no binding.
    pub rows: u64,
    /// Entries that are missing in a journal.
    pub missing: u64,
    events: u64,
}

impl Damage {
    /// Nothing is damaged, and nothing is missing.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.rows == 0 && self.missing == 0
    }

    fn logs(&mut self) -> bool {
        self.events += 1;
        self.events <= EVENTS_MAX
    }

    /// The part of an entry that is whole. `node` is empty for this one.
    pub(super) fn whole<'a>(
        &mut self,
        table: &str,
        node: &str,
        number: i64,
        changes: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        Journal::read(self.checked(table, node, number, changes))
    }

    /// The bytes of an entry, or none of them if they can't be used.
    pub(super) fn checked<'a>(
        &mut self,
        table: &str,
        node: &str,
        number: i64,
        changes: &'a [u8],
    ) -> &'a [u8] {
        let Err(fault) = Journal::check(changes) else { return changes };
        self.on_fault(table, node, number, fault);
        if fault.leaves_changes() { changes } else { &[] }
    }

    fn on_fault(&mut self, table: &str, node: &str, number: i64, fault: Fault) {
        self.rows += 1;
        if self.logs() {
            tracing::error!(table, node, number, reason = %fault, "a row of the store is damaged");
        }
    }

    /// A row isn't what the table should have.
    pub(super) fn on_row(&mut self, table: &str, number: i64, reason: &str) {
        self.rows += 1;
        if self.logs() {
            tracing::error!(table, number, reason, "a row of the store is damaged");
        }
    }

    /// A user has lines that are no bindings.
    pub fn on_user(&mut self, node: &str, aor: &[u8], unreadable: usize) {
        if unreadable == 0 {
            return;
        }
        self.rows += 1;
        if self.logs() {
            let user = String::from_utf8_lossy(aor);
            let reason = "lines that are no bindings, or of a later version; they are left out";
            tracing::error!(node, %user, lines = unreadable, reason, "a user's row of the store is damaged");
        }
    }

    /// Entries are missing in a journal, from the first of them to the last.
    pub(super) fn on_missing(&mut self, table: &str, node: &str, from: i64, to: i64) {
        self.missing += to.abs_diff(from) + 1;
        if self.logs() {
            tracing::error!(table, node, from, to, "rows of the store are missing");
        }
    }

    /// Adds what was found elsewhere.
    pub fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.missing += other.missing;
        self.events += other.events;
    }

    /// Logs how much there is, if there is any.
    pub fn sum_up(&self) {
        if !self.is_none() {
            let (damaged, missing) = (self.rows, self.missing);
            tracing::error!(
                damaged,
                missing,
                "the store is damaged: what could be read is in use; phones whose bindings are gone or old are there again \
                 once they have refreshed their registration"
            );
        }
    }
}

#[cfg(test)]
mod tests;
