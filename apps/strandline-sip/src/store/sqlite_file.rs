//! An SQLite file with bindings, for one server or for several workers.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, params};

use super::StoreError;

pub(super) fn error(what: &str) -> impl FnOnce(rusqlite::Error) -> StoreError + '_ {
    move |cause| StoreError::new(what, cause)
}

/// Why a file can't be opened, and what to do.
fn not_opened(what: &str) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
    move |cause| {
        let hint = match cause.sqlite_error_code() {
            // Nobody waits for it: it is held locked as long as a server runs.
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                ": another server has it open, or another program; each server needs a file of its own"
            }
            Some(ErrorCode::CannotOpen) => {
                ": is the folder that store.path or --store names there, and may this user write there?"
            }
            _ => "",
        };
        StoreError::new(what, format!("{cause}{hint}"))
    }
}

/// Opens a file, or makes it, with the tables that every one has. It is locked.
pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let what = format!("opening {}", path.display());
    let connection = Connection::open(path).map_err(not_opened(&what))?;
    let set_up = "
        PRAGMA page_size = 16384;
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = FULL;
        PRAGMA locking_mode = EXCLUSIVE;
        PRAGMA wal_autocheckpoint = 8000;
        PRAGMA cache_size = -32000;
        CREATE TABLE IF NOT EXISTS bindings (aor BLOB PRIMARY KEY, state BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS journal (number INTEGER PRIMARY KEY, changes BLOB NOT NULL);
        CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);";
    connection.execute_batch(set_up).map_err(not_opened(&what))?;
    Ok(connection)
}

/// A secret that stays the same: `fresh` the first time.
pub(super) fn secret(connection: &Connection, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
    let insert = "INSERT OR IGNORE INTO secrets (name, value) VALUES (?1, ?2)";
    connection.execute(insert, params![name, &fresh[..]]).map_err(error("writing a secret"))?;
    let read = "SELECT value FROM secrets WHERE name = ?1";
    let value = connection.query_row(read, [name], |row| row.get::<_, Vec<u8>>(0));
    let value = value.map_err(error("reading a secret"))?;
    Ok(value.try_into().unwrap_or(fresh))
}
