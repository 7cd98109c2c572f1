//! The layout of an SQLite file for one server without workers: a table of bindings, and a journal without
//! gaps.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

use super::Damage;
use crate::bindings::Journal;

/// The position of the latest committed entry.
pub(super) const COMMITTED: &str = "committed";

/// The position of the latest entry that is in the table of bindings.
pub(super) const FOLDED: &str = "folded";

/// Maximum number of an entry: more commits than a server will ever make.
const NUMBER_MAX: i64 = 1 << 62;

/// The reason why a row is removed.
const EXCESSIVE: &str = "the number is too large";

/// The reason why a row with anything else in the place of a number is removed.
const NO_NUMBER: &str = "the number is no integer";

/// The reason why a row written by another program can't be used.
const NO_BYTES: &str = "a column holds neither a blob nor text";

/// The reason why a row with another checksum isn't used.
const WRONG_SUM: &str = "the checksum does not match";

/// A callback that receives a user and the user's bindings.
pub(super) type EachUser<'a> = dyn FnMut(&[u8], &[u8]) + 'a;

/// Entries up to the returned one are in the table of bindings. `None` if no position was recorded.
pub(super) fn folded(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let select = "SELECT max(number) FROM positions WHERE name = 'folded'";
    connection.query_row(select, [], |row| row.get(0))
}

/// The number of the latest entry that was committed. `None` in a file of a version that didn't record it.
pub(super) fn committed(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    let select = "SELECT number FROM positions WHERE name = ?1";
    connection.query_row(select, [name], |row| row.get(0)).optional()
}

/// Records a position, within the transaction that it belongs to. In place: replacing the row would write a page of
/// the table's index as well.
pub(super) fn set_position(connection: &Connection, name: &str, number: i64) -> rusqlite::Result<()> {
    let note = "INSERT INTO positions (name, number) VALUES (?1, ?2) \
                ON CONFLICT (name) DO UPDATE SET number = excluded.number";
    connection.prepare_cached(note)?.execute((name, number)).map(|_| ())
}

/// Records in a file without entries that the next one has number 1, so that missing first ones are detected.
pub(super) fn begin_numbers(connection: &Connection) -> rusqlite::Result<()> {
    let insert = "INSERT INTO positions (name, number) SELECT ?1, 0 \
                  WHERE NOT EXISTS (SELECT 1 FROM positions) AND NOT EXISTS (SELECT 1 FROM journal)";
    connection.execute(insert, [FOLDED]).map(|_| ())
}

/// Removes rows whose numbers can't have been reached, because none would be left for the next ones, or are no numbers.
/// Returns the damage.
pub(super) fn remove_excessive(connection: &Connection, tables: &[&str]) -> rusqlite::Result<Damage> {
    let mut damage = Damage::default();
    for table in tables {
        // SQLite orders text and blobs after all numbers.
        let delete =
            format!("DELETE FROM {table} WHERE number > ?1 OR typeof(number) <> 'integer' RETURNING number");
        let mut delete = connection.prepare(&delete)?;
        let mut rows = delete.query([NUMBER_MAX])?;
        while let Some(row) = rows.next()? {
            match row.get_ref(0)? {
                ValueRef::Integer(number) => damage.on_row(table, number, EXCESSIVE),
                _ => damage.on_row(table, 0, NO_NUMBER),
            }
        }
    }
    Ok(damage)
}

/// Returns why a row of a table of bindings can't be used. Versions that know no checksum leave it empty.
pub(super) fn flaw(aor: &[u8], state: &[u8], sum: ValueRef<'_>) -> Option<&'static str> {
    match sum {
        ValueRef::Null => None,
        ValueRef::Integer(sum) if sum == Journal::checksum_of(aor, state) => None,
        _ => Some(WRONG_SUM),
    }
}

/// Passes the rows of the table of bindings to `each`.
pub(super) fn read_bindings(
    connection: &Connection,
    damage: &mut Damage,
    each: &mut EachUser<'_>,
) -> rusqlite::Result<()> {
    let mut select = connection.prepare("SELECT aor, state, sum FROM bindings")?;
    let mut rows = select.query([])?;
    for number in 1.. {
        let Some(row) = rows.next()? else { break };
        match (row.get_ref(0)?.as_bytes(), row.get_ref(1)?.as_bytes()) {
            (Ok(aor), Ok(state)) => match flaw(aor, state, row.get_ref(2)?) {
                None => each(aor, state),
                Some(reason) => damage.on_row("bindings", number, reason),
            },
            _ => damage.on_row("bindings", number, NO_BYTES),
        }
    }
    Ok(())
}

/// Passes the changes of the journal to `each`. Every number after `folded` must be present, up to the latest that
/// was committed.
pub(super) fn read_journal(
    connection: &Connection,
    folded: Option<i64>,
    damage: &mut Damage,
    each: &mut EachUser<'_>,
) -> rusqlite::Result<()> {
    let mut select = connection.prepare("SELECT number, changes FROM journal ORDER BY number")?;
    let mut rows = select.query([])?;
    let mut before = folded;
    while let Some(row) = rows.next()? {
        let number = row.get(0)?;
        if let Some(before) = before.filter(|before| number > before + 1) {
            damage.on_missing("journal", "", before + 1, number - 1);
        }
        // Lower numbers are left by a version that didn't record how far it had folded. They do no harm.
        before = before.max(Some(number));
        match row.get_ref(1)?.as_bytes() {
            Ok(changes) => {
                damage.whole("journal", "", number, changes).for_each(|(aor, state)| each(aor, state));
            }
            Err(_) => damage.on_row("journal", number, NO_BYTES),
        }
    }
    if let Some(last) = committed(connection, COMMITTED)?.filter(|last| *last > before.unwrap_or(0)) {
        damage.on_missing("journal", "", before.unwrap_or(0) + 1, last);
    }
    Ok(())
}
