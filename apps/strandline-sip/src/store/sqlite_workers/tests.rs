#![allow(clippy::unwrap_used)]

use super::*;
use crate::store::temporary::File;
use crate::store::{SqliteStore, Store};

const ALICE: &str = "sip:alice@192.0.2.1\t\tc1\t\t\t1\t2000000000\t1000\t0\t-\tudp\t0\t192.0.2.1:5060";
const DESK: &str = "sip:alice@192.0.2.2\t\tc2\t\t\t1\t2000000000\t1000\t0\to\ttcp\t65\t192.0.2.2:5060";

fn journal(changes: &[(&str, &str)]) -> Journal {
    let mut journal = Journal::default();
    for (aor, state) in changes {
        journal.record_with(aor.as_bytes(), |out| out.extend_from_slice(state.as_bytes()));
    }
    journal
}

fn users(store: &mut SqliteWorkers) -> Vec<Vec<(String, String)>> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (all, damage) = store.load().unwrap();
    assert!(damage.is_none());
    all.into_iter()
        .map(|users| {
            let mut users: Vec<_> = users.iter().map(|(aor, state)| (text(aor), text(state))).collect();
            users.sort();
            users
        })
        .collect()
}

fn has(aor: &str, state: &str) -> (String, String) {
    (aor.to_owned(), state.to_owned())
}

#[test]
fn workers_commits_survive_folded_or_not() {
    let file = File::new("folded");
    let (one, other) = (journal(&[("a", "1"), ("b", "1")]), journal(&[("a", "2")]));
    let gone = journal(&[("b", "")]);
    let mut store = SqliteWorkers::open(&file.0, 2).unwrap();
    store.load().unwrap();
    store.commit(&[(0, one.as_bytes()), (1, other.as_bytes())]).unwrap();
    store.commit(&[(0, gone.as_bytes())]).unwrap();
    drop(store);
    let expected = vec![vec![has("a", "1")], vec![has("a", "2")]];
    let mut store = SqliteWorkers::open(&file.0, 2).unwrap();
    assert_eq!(users(&mut store), expected);
    while store.idle().unwrap() {}
    let left: i64 =
        store.connection.query_row("SELECT count(*) FROM worker_journal", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
    drop(store);
    assert_eq!(users(&mut SqliteWorkers::open(&file.0, 2).unwrap()), expected);
}

#[test]
fn bindings_move_between_server_and_workers() {
    let file = File::new("plain");
    let plain = format!("{ALICE}\n{DESK}\n");
    let mut store = SqliteStore::open(&file.0).unwrap();
    store.commit(&journal(&[("alice", &plain), ("bob", "")])).unwrap();
    let secret = store.secret("flow tokens", [7; 16]).unwrap();
    drop(store);
    let mut store = SqliteWorkers::open(&file.0, 2).unwrap();
    assert_eq!(store.secret("flow tokens", [8; 16]).unwrap(), secret);
    let stamped = format!("{ALICE}\t1\t\t0\n{DESK}\t2\t\t0\n");
    assert_eq!(users(&mut store), [vec![has("alice", &stamped)], vec![]]);
    // The other worker takes over one of the two contacts.
    let moved = format!("{}\t90\tx\n", DESK.replace("c2", "c3"));
    store.commit(&[(1, journal(&[("alice", &moved)]).as_bytes())]).unwrap();
    drop(store);
    let mut all = Vec::new();
    let mut store = SqliteStore::open(&file.0).unwrap();
    let damage = store.load(&mut |_, aor, state| all.push((aor.to_vec(), state.to_vec()))).unwrap();
    assert!(damage.is_none());
    let expected = format!("{ALICE}\n{}\n", DESK.replace("c2", "c3"));
    assert_eq!(all, [(b"alice".to_vec(), expected.into_bytes())]);
    drop(store);
    let mut store = SqliteWorkers::open(&file.0, 3).unwrap();
    assert_eq!(users(&mut store).iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 0]);
}

#[test]
fn vanished_workers_bindings_go_to_the_first() {
    let file = File::new("fewer");
    let mut store = SqliteWorkers::open(&file.0, 3).unwrap();
    let first = journal(&[("alice", &format!("{ALICE}\t10\tx\n")), ("bob", &format!("{ALICE}\t4\tx\n"))]);
    let third = journal(&[("alice", &format!("{DESK}\t20\tx\n\tremoved\tsip.1\t10\t2000000000\n"))]);
    store.load().unwrap();
    store.commit(&[(0, first.as_bytes()), (2, third.as_bytes())]).unwrap();
    drop(store);
    let mut store = SqliteWorkers::open(&file.0, 2).unwrap();
    let expected = [has("alice", &format!("{DESK}\t1\t\t0\n")), has("bob", &format!("{ALICE}\t4\tx\n"))];
    assert_eq!(users(&mut store), [expected.to_vec(), vec![]]);
}

#[test]
fn damaged_rows_of_workers_are_counted() {
    let file = File::new("damaged");
    let mut store = SqliteWorkers::open(&file.0, 2).unwrap();
    store.load().unwrap();
    for (worker, user) in [(0, "a"), (1, "b"), (0, "c")] {
        store.commit(&[(worker, journal(&[(user, "1")]).as_bytes())]).unwrap();
    }
    let spoil = "UPDATE worker_journal SET changes = substr(changes, 1, 5) WHERE number = 2;
                 INSERT INTO worker_journal VALUES (4, 300, x'00');
                 INSERT INTO worker_bindings (aor, worker, state) VALUES ('d', 'text', x'31');";
    store.connection.execute_batch(spoil).unwrap();
    drop(store);
    let (states, damage) = SqliteWorkers::open(&file.0, 2).unwrap().load().unwrap();
    assert_eq!((damage.rows, damage.missing), (3, 0));
    let found: Vec<usize> = states.iter().map(std::collections::HashMap::len).collect();
    assert_eq!(found, [2, 0]);
    // A server without workers takes over the journal, and reports its damage.
    let damage = SqliteStore::open(&file.0).unwrap().load(&mut |_, _, _| {}).unwrap();
    assert_eq!((damage.rows, damage.missing), (5, 0), "two users have states that are no bindings");
}

/// Three commits of two workers, of which the first worker's first one is folded if `folds`; then `sql`. What
/// is damaged, and missing.
fn damage_after(name: &str, folds: bool, sql: &str) -> (u64, u64) {
    let file = File::new(name);
    let mut store = SqliteWorkers::open(&file.0, 2).unwrap();
    store.load().unwrap();
    store.commit(&[(0, journal(&[("a", "1")]).as_bytes())]).unwrap();
    if folds {
        while store.idle().unwrap() {}
    }
    for (worker, user) in [(1, "b"), (0, "c"), (1, "d")] {
        store.commit(&[(worker, journal(&[(user, "1")]).as_bytes())]).unwrap();
    }
    store.connection.execute_batch(sql).unwrap();
    drop(store);
    let (_, damage) = SqliteWorkers::open(&file.0, 2).unwrap().load().unwrap();
    (damage.rows, damage.missing)
}

#[test]
fn missing_rows_of_workers_are_counted() {
    for folds in [false, true] {
        assert_eq!(damage_after("none", folds, ""), (0, 0));
        assert_eq!(damage_after("one", folds, "DELETE FROM worker_journal WHERE number = 3"), (0, 1));
        assert_eq!(damage_after("two", folds, "DELETE FROM worker_journal WHERE number IN (2, 3)"), (0, 2));
    }
    assert_eq!(damage_after("last", false, "DELETE FROM worker_journal WHERE number >= 3"), (0, 2));
    assert_eq!(damage_after("all", true, "DELETE FROM worker_journal"), (0, 3));
    // A version that didn't note how far it had folded.
    let older = "DELETE FROM positions; DELETE FROM worker_journal WHERE number = 3";
    assert_eq!(damage_after("older", true, older), (0, 0));
}

/// Cut at the end of the first of two changes.
#[test]
fn cut_rows_of_workers_are_counted() {
    let file = File::new("cut");
    let mut store = SqliteWorkers::open(&file.0, 1).unwrap();
    store.load().unwrap();
    let (one, both) = (journal(&[("a", "1")]), journal(&[("a", "1"), ("b", "1")]));
    store.commit(&[(0, both.as_bytes())]).unwrap();
    let cut = "UPDATE worker_journal SET changes = substr(changes, 1, ?1)";
    store.connection.execute(cut, [one.as_bytes().len()]).unwrap();
    drop(store);
    let (states, damage) = SqliteWorkers::open(&file.0, 1).unwrap().load().unwrap();
    assert_eq!((states[0].len(), damage.rows, damage.missing), (1, 1, 0));
}

#[test]
fn damaged_folded_rows_of_workers_are_counted() {
    let changed = "UPDATE worker_bindings SET state = x'32'";
    assert_eq!(damage_after("folded-changed", true, changed), (1, 0));
    let unknown = "UPDATE worker_bindings SET sum = NULL";
    assert_eq!(damage_after("folded-earlier", true, unknown), (0, 0));
}

#[test]
fn numbers_of_rows_continue_after_folding() {
    let file = File::new("numbers");
    let one = journal(&[("a", &format!("{ALICE}\t10\tx\n"))]);
    for count in [2, 2, 1, 2] {
        let mut store = SqliteWorkers::open(&file.0, count).unwrap();
        let (_, damage) = store.load().unwrap();
        assert!(damage.is_none(), "{damage:?}");
        for worker in 0..count {
            store.commit(&[(worker, one.as_bytes())]).unwrap();
            store.fold_some(worker).unwrap();
            store.commit(&[(worker, one.as_bytes())]).unwrap();
        }
    }
}

#[test]
fn workers_refuse_commits_to_a_removed_file() {
    let file = File::new("workers-removed");
    let mut store = SqliteWorkers::open(&file.0, 1).unwrap();
    store.load().unwrap();
    let changes = journal(&[("a", "1")]);
    store.commit(&[(0, changes.as_bytes())]).unwrap();
    std::fs::rename(&file.0, file.beside(".away")).unwrap();
    store.commit(&[(0, changes.as_bytes())]).unwrap_err();
    store.idle().unwrap_err();
    std::fs::rename(file.beside(".away"), &file.0).unwrap();
    store.commit(&[(0, changes.as_bytes())]).unwrap();
}

/// SQLite orders text after all numbers.
#[test]
fn positions_of_workers_are_numbers() {
    for name in [COMMITTED, FOLDED] {
        let file = File::new("no-number");
        let mut store = SqliteWorkers::open(&file.0, 2).unwrap();
        store.load().unwrap();
        store.commit(&[(0, journal(&[("a", "1")]).as_bytes())]).unwrap();
        store.connection.execute("UPDATE positions SET number = 'abc' WHERE name = ?1", [name]).unwrap();
        drop(store);
        for rows in [1, 0] {
            let (states, damage) = SqliteWorkers::open(&file.0, 2).unwrap().load().unwrap();
            assert_eq!((damage.rows, states[0].len()), (rows, 1), "{name}");
        }
    }
}
