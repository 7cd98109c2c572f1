//! Damage found in a store. Each damaged place is logged, and all are counted.

use std::path::Path;

use crate::bindings::{Fault, Journal};

/// Maximum number of log events for one reading of a store. Further damage is only counted, and the totals
/// are logged at the end.
const EVENTS_MAX: u64 = 20;

/// The damage found in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Damage {
    /// Number of damaged rows: journal entries, and users with unreadable bindings.
    pub rows: u64,
    /// Number of missing journal entries.
    pub missing: u64,
    events: u64,
}

impl Damage {
    /// Returns true if nothing is damaged or missing.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.rows == 0 && self.missing == 0
    }

    fn logs(&mut self) -> bool {
        self.events += 1;
        self.events <= EVENTS_MAX
    }

    /// The intact part of an entry. `node` is empty for this node.
    pub(super) fn whole<'a>(
        &mut self,
        table: &str,
        node: &str,
        number: i64,
        changes: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        Journal::read(self.checked(table, node, number, changes))
    }

    /// The bytes of an entry; empty if they can't be used.
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
            tracing::error!(table, node, number, reason = %fault, "damaged row in the store");
        }
    }

    /// Records a row with unexpected contents.
    pub(super) fn on_row(&mut self, table: &str, number: i64, reason: &str) {
        self.rows += 1;
        if self.logs() {
            tracing::error!(table, number, reason, "damaged row in the store");
        }
    }

    /// Records that the store's file is there and has no contents.
    pub(super) fn on_empty_file(&mut self, path: &Path) {
        self.rows += 1;
        if self.logs() {
            tracing::error!(path = %path.display(), "the store's file is empty: it is used as a new one");
        }
    }

    /// Records a user with unreadable lines.
    pub fn on_user(&mut self, node: &str, aor: &[u8], unreadable: usize) {
        if unreadable == 0 {
            return;
        }
        self.rows += 1;
        if self.logs() {
            let user = String::from_utf8_lossy(aor);
            let reason = "lines that are not bindings, or bindings of a later version, are skipped";
            tracing::error!(node, %user, lines = unreadable, reason, "damaged bindings of a user in the store");
        }
    }

    /// Records missing journal entries, from `from` to `to` inclusive.
    pub(super) fn on_missing(&mut self, table: &str, node: &str, from: i64, to: i64) {
        self.missing += to.abs_diff(from) + 1;
        if self.logs() {
            tracing::error!(table, node, from, to, "missing rows in the store");
        }
    }

    /// Adds the damage found elsewhere.
    pub fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.missing += other.missing;
        self.events += other.events;
    }

    /// Logs the totals, if anything is damaged.
    pub fn sum_up(&self) {
        if !self.is_none() {
            let (damaged, missing) = (self.rows, self.missing);
            tracing::error!(
                damaged,
                missing,
                "the store is damaged; bindings that could be read are in use, and lost ones return when their phones \
                 refresh their registration"
            );
        }
    }
}

#[cfg(test)]
mod tests;
