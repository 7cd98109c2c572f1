//! Bindings in an SQLite file.
//!
//! A commit adds one row to the table `journal`, however many users it changes, so it costs as much as for
//! one user. The changes are later folded into the table `bindings`, step by step. That table has one row for
//! each user, so a phone that has registered ten times meanwhile is written there once.

use std::path::Path;

use rusqlite::{Connection, params};

use super::folding::{FOLD, Folding, User};
use super::sqlite_file::{connect, error, not_read, secret};
use super::sqlite_file_identity::Place;
use super::sqlite_plain::{
    COMMITTED, FOLDED, begin_numbers, committed, folded, read_bindings, read_journal, remove_excessive,
    set_position,
};
use super::sqlite_workers::{in_transaction, to_plain};
use super::{Damage, Each, Store, StoreError};
use crate::bindings::Journal;

const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";

/// Users to fold, and the entry up to which everything is folded then.
type Step = (Vec<User>, Option<i64>);

/// Bindings in an SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    place: Place,
    folding: Folding,
    last: i64,
    /// Entries up to this one are in the table of bindings. `None` if no position was recorded.
    folded: Option<i64>,
    /// Damage found in the data of workers that was taken over.
    damage: Damage,
}

impl SqliteStore {
    /// Opens a file, or creates it. Data written by several workers is taken over.
    ///
    /// # Errors
    /// Returns an error if the file can't be opened, is in use, or is not such a database.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let (connection, was_empty) = connect(path)?;
        let what = format!("opening {}", path.display());
        let mut damage = was_empty;
        // If one of these fails, the next start finds the same damage.
        let repaired = in_transaction(&connection, || {
            let mut damage = remove_excessive(&connection, &["positions", "journal"])?;
            damage.add(to_plain(&connection)?);
            begin_numbers(&connection)?;
            Ok(damage)
        });
        damage.add(repaired.map_err(not_read(&what))?);
        let folded = folded(&connection).map_err(not_read(&what))?;
        let last = connection
            .query_row("SELECT max(number) FROM journal", [], |row| row.get::<_, Option<i64>>(0))
            .map_err(not_read(&what))?;
        // Numbers are never reused, so that a missing entry is detected.
        let committed = committed(&connection, COMMITTED).map_err(not_read(&what))?;
        let last = last.max(folded).max(committed).unwrap_or(0);
        let place = Place::new(path);
        Ok(Self { connection, place, folding: Folding::default(), last, folded, damage })
    }

    /// A persistent secret. `fresh` becomes its value the first time.
    ///
    /// # Errors
    /// Returns an error if it can't be read or written.
    pub fn secret(&mut self, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        secret(&self.connection, name, fresh)
    }

    /// Folds some users, within a transaction.
    fn fold(&self, some: &[User], folded: Option<i64>) -> rusqlite::Result<()> {
        let put = "REPLACE INTO bindings (aor, state, sum) VALUES (?1, ?2, ?3)";
        let mut put = self.connection.prepare_cached(put)?;
        let mut remove = self.connection.prepare_cached("DELETE FROM bindings WHERE aor = ?1")?;
        for (aor, state) in some {
            if state.is_empty() {
                remove.execute([&aor[..]])?;
            } else {
                put.execute(params![&aor[..], &state[..], Journal::checksum_of(aor, state)])?;
            }
        }
        if let Some(folded) = folded {
            let mut forget = self.connection.prepare_cached("DELETE FROM journal WHERE number <= ?1")?;
            forget.execute([folded])?;
            set_position(&self.connection, FOLDED, folded)?;
        }
        Ok(())
    }

    /// Writes an entry, and folds some users in the same transaction, so that the disk is synced once.
    fn try_commit(&self, number: i64, changes: &Journal, step: Option<&Step>) -> rusqlite::Result<()> {
        self.connection.prepare_cached(BEGIN)?.execute([])?;
        let insert = "INSERT INTO journal (number, changes) VALUES (?1, ?2)";
        let sealed = Journal::sealed(changes.as_bytes());
        self.connection.prepare_cached(insert)?.execute(params![number, sealed])?;
        set_position(&self.connection, COMMITTED, number)?;
        if let Some((some, folded)) = step {
            self.fold(some, *folded)?;
        }
        self.connection.prepare_cached(COMMIT)?.execute([]).map(|_| ())
    }

    fn try_fold(&self, some: &[User], folded: Option<i64>) -> rusqlite::Result<()> {
        self.connection.prepare_cached(BEGIN)?.execute([])?;
        self.fold(some, folded)?;
        self.connection.prepare_cached(COMMIT)?.execute([]).map(|_| ())
    }

    /// Rolls back a transaction left open by an error.
    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::warn!(%error, "rolling back a transaction failed");
        }
    }

    fn fold_some(&mut self) -> Result<(), StoreError> {
        self.place.check()?;
        let (some, folded) = self.folding.take(self.last, FOLD);
        let result = self.try_fold(&some, folded);
        if result.is_err() {
            self.roll_back();
            self.folding.put_back(some);
        }
        result.map_err(error("compacting the journal"))
    }
}

impl Store for SqliteStore {
    fn load(&mut self, each: &mut Each<'_>) -> Result<Damage, StoreError> {
        let mut damage = std::mem::take(&mut self.damage);
        let Self { connection, folding, folded, .. } = self;
        let what = "reading bindings";
        read_bindings(connection, &mut damage, &mut |aor, state| each("", aor, state))
            .map_err(not_read(what))?;
        let mut each = |aor: &[u8], state: &[u8]| {
            each("", aor, state);
            folding.note(aor, state);
        };
        read_journal(connection, *folded, &mut damage, &mut each).map_err(not_read("reading the journal"))?;
        Ok(damage)
    }

    fn commit(&mut self, changes: &Journal) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.place.check()?;
        let number = self.last + 1;
        let step = self.folding.take_beside(self.last, changes.len());
        let mut result = self.try_commit(number, changes, step.as_ref());
        if let (Err(error), Some((some, _))) = (&result, step) {
            // Perhaps the table of bindings is damaged. That doesn't keep changes from being committed.
            tracing::warn!(%error, "committing and compacting the journal failed");
            self.roll_back();
            self.folding.put_back(some);
            result = self.try_commit(number, changes, None);
        }
        if result.is_err() {
            self.roll_back();
        }
        result.map_err(error("writing bindings"))?;
        self.last = number;
        // The file may have been removed meanwhile.
        self.place.check()?;
        self.folding.note_all(changes);
        Ok(())
    }

    fn idle(&mut self) -> Result<bool, StoreError> {
        if self.folding.is_done() {
            return Ok(false);
        }
        self.fold_some()?;
        Ok(!self.folding.is_done())
    }
}

#[cfg(test)]
mod tests;
