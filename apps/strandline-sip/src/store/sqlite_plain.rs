//! What one server without workers keeps in an SQLite file: a table of bindings, and a journal without gaps.

use rusqlite::Connection;

use super::Damage;

/// Why a row can't be used that somebody else has written.
const NO_BYTES: &str = "a column has neither bytes nor text in it";

/// Shows a user and its bindings.
pub(super) type EachUser<'a> = dyn FnMut(&[u8], &[u8]) + 'a;

/// Entries up to this one are in the table of bindings; `None` if that was never noted.
pub(super) fn folded(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let select = "SELECT max(number) FROM positions WHERE name = 'folded'";
    connection.query_row(select, [], |row| row.get(0))
}

/// Shows the rows of the table of bindings.
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

/// Shows the changes of the journal, in which every number after `folded` must be.
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
        // A version that didn't note how far it had folded begins with lower numbers: those do no harm.
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
