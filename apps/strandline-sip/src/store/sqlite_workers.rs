//! Bindings of several workers in one SQLite file, written by one process for all of them.
//!
//! As for a single server ([`super::sqlite`]), a commit adds rows to a journal: here one row for each worker
//! with changes, all in one transaction, so the disk is synced once. Rows of both tables name the worker. A
//! file written by one server without workers is taken over, and vice versa.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use super::folding::{FOLD, Folding, User};
use super::sqlite_file::{add_sum, connect, error, not_read, secret};
use super::sqlite_file_identity::Place;
use super::sqlite_plain::{
    committed, flaw, folded, read_bindings, read_journal, remove_excessive, set_position,
};
use super::{Damage, StoreError};
use crate::bindings::{Journal, stamped, unite};

/// For each worker, the states of its users.
pub type States = Vec<HashMap<Box<[u8]>, Vec<u8>>>;

/// The number of a worker, and its changes in the form of a journal.
pub type Changes<'a> = (u8, &'a [u8]);

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS worker_bindings
        (aor BLOB, worker INTEGER, state BLOB NOT NULL, PRIMARY KEY (aor, worker)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS worker_journal
        (number INTEGER PRIMARY KEY, worker INTEGER NOT NULL, changes BLOB NOT NULL);";

/// Each worker folds its own rows of the journal, so numbers up to the highest that any of them has folded
/// may be missing. This position is that number; every later number must be there.
const FOLDED: &str = "workers folded";

/// The position of the latest committed entry.
const COMMITTED: &str = "workers committed";

/// The node name of a worker; workers are numbered from 1 in it.
#[must_use]
pub fn worker_name(node: &str, worker: u8) -> String {
    format!("{node}.{}", u16::from(worker) + 1)
}

/// The name of a server that is not a node.
pub const ALONE: &str = "sip";

/// Bindings of several workers in an SQLite file.
#[derive(Debug)]
pub struct SqliteWorkers {
    connection: Connection,
    place: Place,
    foldings: Vec<Folding>,
    last: i64,
    /// Damage found when the file was opened.
    damage: Damage,
}

impl SqliteWorkers {
    /// Opens a file, or creates it, for `count` workers. Data of other layouts is taken over.
    ///
    /// # Errors
    /// Returns an error if the file can't be opened, is in use, or is not such a database.
    pub fn open(path: &Path, count: u8) -> Result<Self, StoreError> {
        let (connection, was_empty) = connect(path)?;
        let what = format!("opening {}", path.display());
        connection.execute_batch(TABLES).map_err(error(&what))?;
        add_sum(&connection, "worker_bindings").map_err(error(&what))?;
        let foldings = (0..count).map(|_| Folding::default()).collect();
        let place = Place::new(path);
        let mut store = Self { connection, place, foldings, last: 0, damage: Damage::default() };
        let mut damage = was_empty;
        let result = store.in_transaction(|store| {
            let tables = ["positions", "journal", "worker_journal"];
            damage.add(remove_excessive(&store.connection, &tables)?);
            damage.add(from_plain(&store.connection)?);
            let united = store.unite_others(count)?;
            begin_numbers(&store.connection)?;
            Ok(united)
        });
        let united = result.map_err(not_read("migrating the file's bindings"))?;
        // What is still in the file will be read and counted again.
        damage.add(united);
        store.damage = damage;
        Ok(store)
    }

    /// A persistent secret. `fresh` becomes its value the first time.
    ///
    /// # Errors
    /// Returns an error if it can't be read or written.
    pub fn secret(&mut self, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        secret(&self.connection, name, fresh)
    }

    /// The states of all workers, and the damage found, which was skipped.
    ///
    /// # Errors
    /// Returns an error if they can't be read.
    pub fn load(&mut self) -> Result<(States, Damage), StoreError> {
        let mut damage = std::mem::take(&mut self.damage);
        let read = read(&self.connection, &mut damage).map_err(not_read("reading bindings"))?;
        let (mut states, journal, last) = read;
        states.resize_with(self.foldings.len(), HashMap::new);
        for (worker, changes) in &journal {
            if let Some(folding) = self.foldings.get_mut(usize::from(*worker)) {
                Journal::read(changes).for_each(|(aor, state)| folding.note(aor, state));
            }
        }
        self.last = last;
        Ok((states, damage))
    }

    /// Persists changes of workers atomically. Once it returns, they survive a crash of the machine.
    ///
    /// # Errors
    /// Returns an error if they can't be written; the same changes may then be committed again.
    pub fn commit(&mut self, all: &[Changes<'_>]) -> Result<(), StoreError> {
        let mut last = self.last;
        self.place.check()?;
        let result = self.in_transaction(|store| {
            let insert = "INSERT INTO worker_journal (number, worker, changes) VALUES (?1, ?2, ?3)";
            let mut insert = store.connection.prepare_cached(insert)?;
            for (worker, changes) in all.iter().filter(|(_, changes)| !changes.is_empty()) {
                last += 1;
                insert.execute(params![last, worker, Journal::sealed(changes)])?;
            }
            if last > store.last { set_position(&store.connection, COMMITTED, last) } else { Ok(()) }
        });
        result.map_err(error("writing bindings"))?;
        self.last = last;
        // The file may have been removed meanwhile.
        self.place.check()?;
        for (worker, changes) in all {
            let Some(folding) = self.foldings.get_mut(usize::from(*worker)) else { continue };
            Journal::read(changes).for_each(|(aor, state)| folding.note(aor, state));
            // An error here doesn't affect what was committed.
            if folding.is_due()
                && let Err(error) = self.fold_some(*worker)
            {
                tracing::warn!(%error, "compacting the journal failed");
            }
        }
        Ok(())
    }

    /// Does one step of maintenance. Returns whether more remains.
    ///
    /// # Errors
    /// Returns an error if it can't write.
    pub fn idle(&mut self) -> Result<bool, StoreError> {
        let todo = self.foldings.iter().position(|folding| !folding.is_done());
        let Some(worker) = todo else { return Ok(false) };
        self.fold_some(worker as u8)?;
        Ok(self.foldings.iter().any(|folding| !folding.is_done()))
    }

    fn fold_some(&mut self, worker: u8) -> Result<(), StoreError> {
        self.place.check()?;
        let last = self.last;
        let Some(folding) = self.foldings.get_mut(usize::from(worker)) else { return Ok(()) };
        let (some, folded) = folding.take(last, FOLD);
        let result = self.in_transaction(|store| store.fold(worker, &some, folded));
        if let (Err(_), Some(folding)) = (&result, self.foldings.get_mut(usize::from(worker))) {
            folding.put_back(some);
        }
        result.map_err(error("compacting the journal"))
    }

    fn fold(&self, worker: u8, some: &[User], folded: Option<i64>) -> rusqlite::Result<()> {
        some.iter().try_for_each(|(aor, state)| put(&self.connection, worker, aor, state))?;
        if let Some(folded) = folded {
            let forget = "DELETE FROM worker_journal WHERE number <= ?1 AND worker = ?2";
            self.connection.prepare_cached(forget)?.execute(params![folded, worker])?;
            let note = "UPDATE positions SET number = max(number, ?2) WHERE name = ?1";
            self.connection.prepare_cached(note)?.execute(params![FOLDED, folded])?;
        }
        Ok(())
    }

    /// Moves users of workers that no longer exist to the first worker, merged with their state at all
    /// others. Returns the damage found in the journal if it was read and removed for that.
    fn unite_others(&self, count: u8) -> rusqlite::Result<Damage> {
        if !self.has_others(count)? {
            return Ok(Damage::default());
        }
        let mut damage = Damage::default();
        let (states, _, last) = read(&self.connection, &mut damage)?;
        let Some(others) = states.get(usize::from(count)..).filter(|others| !others.is_empty()) else {
            // Damage stays in the file and is counted when it is read again.
            return Ok(Damage::default());
        };
        for aor in others.iter().flat_map(HashMap::keys) {
            let (united, unreadable) = united(&states, aor);
            damage.on_user("", aor, unreadable);
            let (united, _) = stamped(&united);
            forget(&self.connection, aor)?;
            put(&self.connection, 0, aor, &united)?;
        }
        // Then all is in the table, and the journal isn't needed for the other users either.
        for (worker, users) in (0..count).zip(&states) {
            for (aor, state) in
                users.iter().filter(|(aor, _)| others.iter().all(|other| !other.contains_key(*aor)))
            {
                put(&self.connection, worker, aor, state)?;
            }
        }
        self.connection.execute("DELETE FROM worker_journal", [])?;
        self.connection
            .execute("REPLACE INTO positions (name, number) VALUES (?1, ?2)", params![FOLDED, last])?;
        Ok(damage)
    }

    /// Returns true if there are rows of workers that no longer exist.
    fn has_others(&self, count: u8) -> rusqlite::Result<bool> {
        let select = "SELECT EXISTS (SELECT 1 FROM worker_bindings WHERE worker >= ?1) \
                      OR EXISTS (SELECT 1 FROM worker_journal WHERE worker >= ?1)";
        self.connection.query_row(select, [count], |row| row.get(0))
    }

    fn in_transaction<T>(&mut self, work: impl FnOnce(&Self) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        in_transaction(&self.connection, || work(self))
    }
}

/// Does work in a transaction, which is rolled back if it fails.
pub(super) fn in_transaction<T>(
    connection: &Connection,
    work: impl FnOnce() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let result = work().and_then(|done| connection.execute_batch("COMMIT").map(|()| done));
    if result.is_err()
        && !connection.is_autocommit()
        && let Err(error) = connection.execute_batch("ROLLBACK")
    {
        tracing::warn!(%error, "rolling back a transaction failed");
    }
    result
}

fn put(connection: &Connection, worker: u8, aor: &[u8], state: &[u8]) -> rusqlite::Result<()> {
    if state.is_empty() {
        let remove = "DELETE FROM worker_bindings WHERE aor = ?1 AND worker = ?2";
        return connection.prepare_cached(remove)?.execute(params![aor, worker]).map(|_| ());
    }
    let put = "REPLACE INTO worker_bindings (aor, worker, state, sum) VALUES (?1, ?2, ?3, ?4)";
    let sum = Journal::checksum_of(aor, state);
    connection.prepare_cached(put)?.execute(params![aor, worker, state, sum]).map(|_| ())
}

fn forget(connection: &Connection, aor: &[u8]) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM worker_bindings WHERE aor = ?1")?.execute([aor]).map(|_| ())
}

/// The states of all workers, their journals, and the number of the last entry.
type Read = (States, Vec<(u8, Vec<u8>)>, i64);

fn read(connection: &Connection, damage: &mut Damage) -> rusqlite::Result<Read> {
    let mut states = States::new();
    let mut note = |worker: u8, aor: &[u8], state: Vec<u8>| {
        let worker = usize::from(worker);
        if states.len() <= worker {
            states.resize_with(worker + 1, HashMap::new);
        }
        let Some(users) = states.get_mut(worker) else { return };
        match state.is_empty() {
            true => users.remove(aor),
            false => users.insert(aor.into(), state),
        };
    };
    let mut select = connection.prepare("SELECT worker, aor, state, sum FROM worker_bindings")?;
    let mut rows = select.query([])?;
    for number in 1.. {
        let Some(row) = rows.next()? else { break };
        match (row.get(0), row.get_ref(1)?.as_bytes(), row.get_ref(2)?.as_bytes()) {
            (Ok(worker), Ok(aor), Ok(state)) => match flaw(aor, state, row.get_ref(3)?) {
                None => note(worker, aor, state.to_vec()),
                Some(reason) => damage.on_row("worker_bindings", number, reason),
            },
            _ => damage.on_row("worker_bindings", number, NOT_OURS),
        }
    }
    let mut select =
        connection.prepare("SELECT number, worker, changes FROM worker_journal ORDER BY number")?;
    let mut rows = select.query([])?;
    let folded = position(connection)?;
    let (mut journal, mut last) = (Vec::new(), folded.unwrap_or(0));
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        if folded.is_some() && number > last + 1 {
            damage.on_missing("worker_journal", "", last + 1, number - 1);
        }
        last = last.max(number);
        let (Ok(worker), Ok(changes)) = (row.get(1), row.get_ref(2)?.as_bytes()) else {
            damage.on_row("worker_journal", number, NOT_OURS);
            continue;
        };
        let changes = damage.checked("worker_journal", "", number, changes);
        Journal::read(changes).for_each(|(aor, state)| note(worker, aor, state.to_vec()));
        journal.push((worker, changes.to_vec()));
    }
    if let Some(committed) = committed(connection, COMMITTED)?.filter(|committed| *committed > last) {
        damage.on_missing("worker_journal", "", last + 1, committed);
        last = committed;
    }
    Ok((states, journal, last))
}

/// The highest number of the journal that a worker has folded; `None` in a file of a version that didn't note
/// it.
fn position(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let select = "SELECT number FROM positions WHERE name = ?1";
    connection.query_row(select, [FOLDED], |row| row.get(0)).optional()
}

/// Notes up to where numbers may be missing, if that has never been noted: up to the last row that there is.
fn begin_numbers(connection: &Connection) -> rusqlite::Result<()> {
    // An earlier version has removed the one position and doesn't know the other.
    let outdated = "DELETE FROM positions WHERE name = ?1 AND NOT EXISTS
                    (SELECT 1 FROM positions WHERE name = ?2)";
    connection.execute(outdated, [COMMITTED, FOLDED])?;
    let insert = "INSERT OR IGNORE INTO positions (name, number)
                  SELECT ?1, coalesce(max(number), 0) FROM worker_journal";
    connection.execute(insert, [FOLDED]).map(|_| ())
}

/// The reason why a row written by another program can't be used.
const NOT_OURS: &str = "the worker is not a number from 0 to 255, or a column holds neither a blob nor text";

/// The merged state of a user at all workers, and the number of unreadable lines.
fn united(states: &States, aor: &[u8]) -> (Vec<u8>, usize) {
    let names: Vec<String> = (0..states.len()).map(|worker| worker_name(ALONE, worker as u8)).collect();
    let of = states.iter().zip(&names);
    let of: Vec<(&str, &[u8])> =
        of.filter_map(|(users, name)| Some((name.as_str(), users.get(aor)?.as_slice()))).collect();
    unite(&of)
}

/// Moves the data of a server without workers to the first worker.
fn from_plain(connection: &Connection) -> rusqlite::Result<Damage> {
    let (mut users, mut damage) = (HashMap::new(), Damage::default());
    let mut note = |aor: &[u8], state: &[u8]| {
        users.insert(aor.to_vec(), state.to_vec());
    };
    read_bindings(connection, &mut damage, &mut note)?;
    read_journal(connection, folded(connection)?, &mut damage, &mut note)?;
    for (aor, state) in users.iter().filter(|(_, state)| !state.is_empty()) {
        let (state, unreadable) = stamped(state);
        damage.on_user("", aor, unreadable);
        put(connection, 0, aor, &state)?;
    }
    connection.execute_batch("DELETE FROM bindings; DELETE FROM journal")?;
    connection.execute("DELETE FROM positions WHERE name NOT IN (?1, ?2)", [FOLDED, COMMITTED])?;
    Ok(damage)
}

/// Converts the data of workers into the layout of a server without workers, within a transaction.
///
/// # Errors
/// Returns an error if it can't be read or written.
pub(super) fn to_plain(connection: &Connection) -> rusqlite::Result<Damage> {
    let known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'worker_bindings'";
    if connection.query_row(known, [], |_| Ok(())).optional()?.is_none() {
        return Ok(Damage::default());
    }
    let mut damage = Damage::default();
    let (states, _, _) = read(connection, &mut damage)?;
    let mut put = connection.prepare("REPLACE INTO bindings (aor, state, sum) VALUES (?1, ?2, ?3)")?;
    for aor in states.iter().flat_map(HashMap::keys) {
        let (state, unreadable) = united(&states, aor);
        damage.on_user("", aor, unreadable);
        if !state.is_empty() {
            put.execute(params![&aor[..], state, Journal::checksum_of(aor, &state)])?;
        }
    }
    connection.execute_batch("DELETE FROM worker_bindings; DELETE FROM worker_journal")?;
    connection.execute("DELETE FROM positions WHERE name IN (?1, ?2)", [FOLDED, COMMITTED])?;
    Ok(damage)
}

#[cfg(test)]
mod tests;
