//! The layout of an SQLite file for one server without workers: a table of bindings, and a journal without
//! gaps.

use rusqlite::Connection;

use super::Damage;

/// The reason why a row written by another program can't be used.
const NO_BYTES: &str = "a column holds neither a blob nor text";

/// A callback that receives a user and the user's bindings.
pub(super) type EachUser<'a> = dyn FnMut(&[u8], &[u8]) + 'a;

/// Entries up to the returned one are in the table of bindings. `None` if no position was recorded.
pub(super) fn folded(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let select = "SELECT max(number) FROM positions WHERE name = 'folded'";
    connection.query_row(select, [], |row| row.get(0))
}

/// Passes the rows of the table of bindings to `each`.
pub(super) fn read_bindings(
    connection: &Connection,
    damage: &mut Damage,
    each: &mut EachUser<'_>,
) -> rusqlite::Result<()> {
    let mut select = connection.prepare("SELECT aor, state FROM bindings")?;
    let mut rows = select.query([])?;
    for number in 1.. {
        let Some(row) = rows.next()? else { break };
        match (row.get_ref(0)?.as_bytes(), row.get_ref(1)?.as_bytes()) {
            (Ok(aor), Ok(state)) => each(aor, state),
            _ => damage.on_row("bindings", number, NO_BYTES),
        }
    }
    Ok(())
}

/// Passes the changes of the journal to `each`. Every number after `folded` must be present.
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
    Ok(())
}
