//! Bindings in an SQLite file.
//!
//! A commit adds one row to the table `journal`, however many users it changes: that costs as much as one user would. Later,
//! a little at a time, what changed is folded into the table `bindings`, where each user has one row; a phone that has
//! registered ten times since is written there once.

use std::path::Path;

use rusqlite::{Connection, params};

use super::folding::{Folding, User};
use super::sqlite_file::{connect, error, secret};
use super::sqlite_workers::to_plain;
use super::{Each, Store, StoreError};
use crate::location::Journal;

/// Bindings in an SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    folding: Folding,
    last: i64,
}

impl SqliteStore {
    /// Opens a file, or makes it. What several workers have left there is taken over.
    ///
    /// # Errors
    /// If it can't be opened, or is something else, or is in use.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = connect(path)?;
        let what = format!("opening {}", path.display());
        to_plain(&connection).map_err(error(&what))?;
        let last = connection
            .query_row("SELECT coalesce(max(number), 0) FROM journal", [], |row| row.get(0))
            .map_err(error(&what))?;
        Ok(Self { connection, folding: Folding::default(), last })
    }

    /// A secret that stays the same: `fresh` the first time.
    ///
    /// # Errors
    /// If it can't be read or written.
    pub fn secret(&mut self, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        secret(&self.connection, name, fresh)
    }

    /// Folds some users, within a transaction.
    fn fold(&self, some: &[User], folded: Option<i64>) -> rusqlite::Result<()> {
        let mut put = self.connection.prepare_cached("REPLACE INTO bindings (aor, state) VALUES (?1, ?2)")?;
        let mut remove = self.connection.prepare_cached("DELETE FROM bindings WHERE aor = ?1")?;
        for (aor, state) in some {
            if state.is_empty() {
                remove.execute([&aor[..]])?;
            } else {
                put.execute([&aor[..], &state[..]])?;
            }
        }
        if let Some(folded) = folded {
            let mut forget = self.connection.prepare_cached("DELETE FROM journal WHERE number <= ?1")?;
            forget.execute([folded])?;
        }
        Ok(())
    }

    fn try_commit(&mut self, changes: &Journal) -> rusqlite::Result<()> {
        let number = self.last + 1;
        let mut insert =
            self.connection.prepare_cached("INSERT INTO journal (number, changes) VALUES (?1, ?2)")?;
        // A statement outside of a transaction is one of its own, as durable as any.
        insert.execute(params![number, changes.as_bytes()])?;
        self.last = number;
        Ok(())
    }

    fn try_fold(&self, some: &[User], folded: Option<i64>) -> rusqlite::Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        self.fold(some, folded)?;
        self.connection.execute_batch("COMMIT")
    }

    /// After an error nothing is left open.
    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::warn!(%error, "rolling back");
        }
    }

    fn fold_some(&mut self) -> Result<(), StoreError> {
        let (some, folded) = self.folding.take(self.last);
        let result = self.try_fold(&some, folded);
        if result.is_err() {
            self.roll_back();
            self.folding.put_back(some);
        }
        result.map_err(error("folding the journal"))
    }

    fn read_journal(&mut self, each: &mut Each<'_>) -> Result<(), StoreError> {
        let what = "reading the journal";
        let mut rows = Vec::new();
        {
            let mut select = self
                .connection
                .prepare("SELECT changes FROM journal ORDER BY number")
                .map_err(error(what))?;
            let found = select.query_map([], |row| row.get::<_, Vec<u8>>(0)).map_err(error(what))?;
            for row in found {
                rows.push(row.map_err(error(what))?);
            }
        }
        for row in rows {
            for (aor, state) in Journal::read(&row) {
                each("", aor, state);
                self.folding.note(aor, state);
            }
        }
        Ok(())
    }
}

impl Store for SqliteStore {
    fn load(&mut self, each: &mut Each<'_>) -> Result<(), StoreError> {
        let what = "reading bindings";
        {
            let mut select =
                self.connection.prepare("SELECT aor, state FROM bindings").map_err(error(what))?;
            let mut rows = select.query([]).map_err(error(what))?;
            while let Some(row) = rows.next().map_err(error(what))? {
                let aor = row.get_ref(0).and_then(|value| Ok(value.as_blob()?)).map_err(error(what))?;
                let state = row.get_ref(1).and_then(|value| Ok(value.as_blob()?)).map_err(error(what))?;
                each("", aor, state);
            }
        }
        self.read_journal(each)
    }

    fn commit(&mut self, changes: &Journal) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        let result = self.try_commit(changes);
        if result.is_err() {
            self.roll_back();
        }
        result.map_err(error("writing bindings"))?;
        self.folding.note_all(changes);
        if self.folding.is_due() {
            // What was committed stays committed whatever becomes of this.
            if let Err(error) = self.fold_some() {
                tracing::warn!(%error, "the journal grows");
            }
        }
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
