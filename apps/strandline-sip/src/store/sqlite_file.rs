//! An SQLite file with bindings, shared by the layouts for one server and for several workers.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, params};

use super::{Damage, StoreError};

/// The advice for a file that SQLite itself can't read.
const UNREADABLE: &str = ": the file is damaged, or no SQLite file: keep a copy of it and of the files beside it, get back \
                          what can be read with sqlite3 FILE .recover, or move it away: then all phones register anew \
                          (docs/sip-operation.md, \"The store\")";

/// The file format that this version writes. An incompatible format would have a higher number.
const FORMAT: i64 = 0;

/// Explains why a file can't be read, and what to do.
pub(super) fn not_read(what: &str) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
    move |cause| {
        let damaged = [Some(ErrorCode::DatabaseCorrupt), Some(ErrorCode::NotADatabase)];
        let hint = if damaged.contains(&cause.sqlite_error_code()) { UNREADABLE } else { "" };
        StoreError::new(what, format!("{cause}{hint}"))
    }
}

pub(super) fn error(what: &str) -> impl FnOnce(rusqlite::Error) -> StoreError + '_ {
    move |cause| StoreError::new(what, cause)
}

/// Explains why a file can't be opened, and what to do.
fn not_opened(what: &str) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
    move |cause| {
        let hint = match cause.sqlite_error_code() {
            // There is no point in waiting: a server holds the lock as long as it runs.
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                ": another server or program has it open; each server needs its own file"
            }
            Some(ErrorCode::CannotOpen) => {
                ": does the directory of store.path or --store exist, and may this user write there?"
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => UNREADABLE,
            _ => "",
        };
        StoreError::new(what, format!("{cause}{hint}"))
    }
}

/// Returns what is at a path if it is there and no regular file, which a store needs.
#[must_use]
pub fn other_kind(path: &Path) -> Option<&'static str> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    match kind {
        _ if kind.is_file() => None,
        _ if kind.is_dir() => Some("a directory"),
        _ if kind.is_fifo() => Some("a FIFO"),
        _ if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}

/// Opens a file, or creates it, with the tables common to all layouts. The file is locked. Returns also the damage: a
/// file that is there and empty has lost its contents.
pub(super) fn connect(path: &Path) -> Result<(Connection, Damage), StoreError> {
    let what = format!("opening {}", path.display());
    let mut damage = Damage::default();
    if let Some(kind) = other_kind(path) {
        return Err(StoreError::new(what, format!("it is {kind}, no regular file")));
    }
    if std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0) {
        damage.on_empty_file(path);
    }
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
        CREATE TABLE IF NOT EXISTS positions (name TEXT PRIMARY KEY, number INTEGER NOT NULL);
        CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);";
    connection.execute_batch(set_up).map_err(not_opened(&what))?;
    add_sum(&connection, "bindings").map_err(not_opened(&what))?;
    let format = connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
    let format = format.map_err(not_opened(&what))?;
    if format > FORMAT {
        let cause = format!(
            "the file was written by a later version of this program (format {format}): use that version"
        );
        return Err(StoreError::new(what, cause));
    }
    Ok((connection, damage))
}

/// Adds the column for a checksum of each row to a table of bindings of an earlier version. Earlier versions leave it
/// empty in the rows that they write.
pub(super) fn add_sum(connection: &Connection, table: &str) -> rusqlite::Result<()> {
    let has = "SELECT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE name = 'sum')";
    if connection.query_row(has, [table], |row| row.get(0))? {
        return Ok(());
    }
    connection.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN sum INTEGER"))
}

/// A persistent secret. `fresh` becomes its value the first time.
pub(super) fn secret(connection: &Connection, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
    let insert = "INSERT OR IGNORE INTO secrets (name, value) VALUES (?1, ?2)";
    connection.execute(insert, params![name, &fresh[..]]).map_err(error("writing a secret"))?;
    let read = "SELECT CAST(value AS BLOB) FROM secrets WHERE name = ?1";
    let value = connection.query_row(read, [name], |row| row.get::<_, Vec<u8>>(0));
    let value = value.map_err(not_read("reading a secret"))?;
    if let Ok(value) = <[u8; 16]>::try_from(value.as_slice()) {
        return Ok(value);
    }
    damaged_secret(name, value.len());
    let replace = "UPDATE secrets SET value = ?2 WHERE name = ?1";
    connection.execute(replace, params![name, &fresh[..]]).map_err(error("writing a secret"))?;
    Ok(fresh)
}

/// Logs that a stored secret is damaged and was replaced.
pub(super) fn damaged_secret(name: &str, bytes: usize) {
    tracing::error!(
        name,
        bytes,
        "a secret in the store does not have 16 bytes and is replaced: dialogs and phones with tokens of the old one must \
         start again"
    );
}
