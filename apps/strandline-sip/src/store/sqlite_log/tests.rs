#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;

use rusqlite::Connection;

use super::*;
use crate::store::temporary::File as Database;
use crate::store::{Damage, SqliteStore, SqliteWorkers, Store};

fn changes(users: &[&str], state: &str) -> Journal {
    let mut journal = Journal::default();
    for aor in users {
        journal.record_with(aor.as_bytes(), |out| out.extend_from_slice(state.as_bytes()));
    }
    journal
}

/// The bindings of a file that a server has left, and their damage.
fn load(file: &Database) -> (BTreeMap<String, String>, Damage) {
    let mut users = BTreeMap::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut store = SqliteStore::open(&file.0).unwrap();
    let damage = store.load(&mut |_, aor, state| drop(users.insert(text(aor), text(state)))).unwrap();
    (users, damage)
}

fn expected(users: &[(&str, &str)]) -> BTreeMap<String, String> {
    users.iter().map(|(aor, state)| ((*aor).to_owned(), (*state).to_owned())).collect()
}

/// Three commits, of a killed server.
fn killed(name: &str) -> Database {
    let file = Database::new(name);
    let mut store = SqliteStore::open(&file.0).unwrap();
    for user in ["a", "b", "c"] {
        store.commit(&changes(&[user], "1\n")).unwrap();
    }
    file
}

/// Changes a byte of the log.
fn spoil(file: &Database, at: usize) {
    let path = file.beside("-log0");
    let mut contents = fs::read(&path).unwrap();
    contents[at] ^= 1;
    fs::write(path, contents).unwrap();
}

#[test]
fn commits_of_a_killed_server_are_found() {
    let file = killed("log-killed");
    let (users, damage) = load(&file);
    assert_eq!(users, expected(&[("a", "1\n"), ("b", "1\n"), ("c", "1\n")]));
    assert!(damage.is_none());
    // They are in the database now.
    assert!(!file.beside("-log0").exists());
    assert_eq!(load(&file), (users, damage));
}

#[test]
fn torn_last_entry_is_ignored() {
    let file = killed("log-torn");
    spoil(&file, 2 * BLOCK + HEADER + 1);
    let (users, damage) = load(&file);
    assert_eq!(users, expected(&[("a", "1\n"), ("b", "1\n")]));
    assert!(damage.is_none());
}

#[test]
fn damaged_entries_are_counted() {
    // The contents of the second entry, and its header.
    for (name, at, damaged, missing) in
        [("log-body", BLOCK + HEADER + 1, 1, 0), ("log-header", BLOCK + 9, 0, 1)]
    {
        let file = killed(name);
        spoil(&file, at);
        let (users, damage) = load(&file);
        assert_eq!(users, expected(&[("a", "1\n"), ("c", "1\n")]));
        assert_eq!((damage.rows, damage.missing), (damaged, missing));
    }
}

#[test]
fn lost_log_is_noticed() {
    let file = Database::new("log-lost");
    let users: Vec<String> = (0..3000).map(|number| format!("u{number}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let mut store = SqliteStore::open(&file.0).unwrap();
    store.commit(&changes(&users, "1\n")).unwrap();
    assert!(store.idle().unwrap());
    drop(store);
    fs::remove_file(file.beside("-log0")).unwrap();
    let (_, damage) = load(&file);
    assert_eq!(damage.missing, 1);
}

#[test]
fn entries_of_earlier_uses_are_not_read_again() {
    let file = killed("log-earlier");
    let mut store = SqliteStore::open(&file.0).unwrap();
    store.load(&mut |_, _, _| {}).unwrap();
    for state in ["2\n", "3\n", "4\n"] {
        store.commit(&changes(&["a"], state)).unwrap();
    }
    while store.idle().unwrap() {}
    store.commit(&changes(&["b"], "5\n")).unwrap();
    drop(store);
    let (users, damage) = load(&file);
    assert_eq!(users, expected(&[("a", "4\n"), ("b", "5\n"), ("c", "1\n")]));
    assert!(damage.is_none());
}

#[test]
fn space_is_used_again() {
    let file = Database::new("log-space");
    let mut store = SqliteStore::open(&file.0).unwrap();
    for number in 0..200 {
        store.commit(&changes(&["a"], &format!("{number}\n"))).unwrap();
        while store.idle().unwrap() {}
    }
    let size = |end| fs::metadata(file.beside(end)).map_or(0, |metadata| metadata.len());
    assert!(size("-log0") + size("-log1") <= 2 * GROWTH_MIN as u64);
}

#[test]
fn commits_during_a_round_are_kept() {
    let file = Database::new("log-round");
    let users: Vec<String> = (0..5000).map(|number| format!("u{number}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    for state in ["1\n", "2\n"] {
        let mut store = SqliteStore::open(&file.0).unwrap();
        store.load(&mut |_, _, _| {}).unwrap();
        store.commit(&changes(&users, state)).unwrap();
        let mut number = 0;
        loop {
            let more = store.idle().unwrap();
            number += 1;
            if number < 5 {
                store.commit(&changes(&["x"], &format!("{number}\n"))).unwrap();
            } else if !more {
                break;
            }
        }
        store.commit(&changes(&["y"], state)).unwrap();
        drop(store);
        let (found, damage) = load(&file);
        assert!(damage.is_none());
        assert_eq!((found["u0"].as_str(), found["u4999"].as_str()), (state, state));
        assert_eq!((found["x"].as_str(), found["y"].as_str()), ("4\n", state));
    }
}

#[test]
fn log_of_another_database_is_ignored() {
    let (file, other) = (killed("log-own"), killed("log-other"));
    fs::copy(other.beside("-log0"), file.beside("-log0")).unwrap();
    assert_eq!(load(&file).0, expected(&[]));
}

#[test]
fn closed_store_is_one_file() {
    let file = Database::new("log-closed");
    let mut store = SqliteStore::open(&file.0).unwrap();
    store.commit(&changes(&["a", "b"], "1\n")).unwrap();
    store.close().unwrap();
    drop(store);
    assert!(!file.beside("-log0").exists() && !file.beside("-log1").exists());
    let connection = Connection::open(&file.0).unwrap();
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(number("SELECT count(*) FROM bindings"), 2);
    // Versions without a log can read it.
    assert_eq!(number("PRAGMA user_version"), 0);
}

#[test]
fn versions_without_a_log_refuse_its_database() {
    let file = killed("log-version");
    let connection = Connection::open(&file.0).unwrap();
    let format: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(format, 1);
}

#[test]
fn workers_take_over_the_log() {
    let file = Database::new("log-workers");
    let state = "sip:a@192.0.2.1\t\tc1\t\t\t1\t2000000000\t1000\t0\t-\tudp\t0\t192.0.2.1:5060\n";
    SqliteStore::open(&file.0).unwrap().commit(&changes(&["a", "b", "c"], state)).unwrap();
    let (states, damage) = SqliteWorkers::open(&file.0, 2).unwrap().load().unwrap();
    assert!(damage.is_none());
    assert_eq!(states.iter().map(std::collections::HashMap::len).sum::<usize>(), 3);
}

#[test]
fn commits_are_refused_while_the_log_is_away() {
    let file = Database::new("log-away");
    let mut store = SqliteStore::open(&file.0).unwrap();
    store.commit(&changes(&["a"], "1\n")).unwrap();
    fs::rename(file.beside("-log0"), file.beside(".away")).unwrap();
    assert!(store.commit(&changes(&["b"], "1\n")).unwrap_err().cause.contains("removed"));
    fs::rename(file.beside(".away"), file.beside("-log0")).unwrap();
    store.commit(&changes(&["b"], "2\n")).unwrap();
    drop(store);
    let (users, damage) = load(&file);
    assert_eq!(users, expected(&[("a", "1\n"), ("b", "2\n")]));
    assert!(damage.is_none());
}
