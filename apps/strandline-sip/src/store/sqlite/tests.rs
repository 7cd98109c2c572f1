#![allow(clippy::unwrap_used)]

use super::*;
use crate::store::temporary::File;

fn changes(users: &[&str]) -> Journal {
    let mut journal = Journal::default();
    for aor in users {
        journal.record_with(aor.as_bytes(), |out| out.extend_from_slice(b"state\n"));
    }
    journal
}

/// A file with the given commits, then damaged by `sql`.
fn spoilt(name: &str, commits: &[&[&str]], sql: &str) -> File {
    let file = File::new(name);
    let mut store = SqliteStore::open(&file.0).unwrap();
    for users in commits {
        store.commit(&changes(users)).unwrap();
    }
    store.connection.execute_batch(sql).unwrap();
    file
}

/// The users, and the numbers of damaged and missing rows.
fn load(file: &File) -> (Vec<String>, u64, u64) {
    let mut users = Vec::new();
    let mut store = SqliteStore::open(&file.0).unwrap();
    let each = &mut |_: &str, aor: &[u8], _: &[u8]| users.push(String::from_utf8(aor.to_vec()).unwrap());
    let damage = store.load(each).unwrap();
    (users, damage.rows, damage.missing)
}

const THREE: [&[&str]; 3] = [&["a", "b"], &["c", "d"], &["e"]];

fn expect(name: &str, sql: &str, users: &[&str], rows: u64, missing: u64) {
    let (found, found_rows, found_missing) = load(&spoilt(name, &THREE, sql));
    assert_eq!(
        (found, found_rows, found_missing),
        (users.iter().map(ToString::to_string).collect(), rows, missing)
    );
}

#[test]
fn whole_journals_have_no_damage() {
    expect("whole", "", &["a", "b", "c", "d", "e"], 0, 0);
}

#[test]
fn damaged_rows_are_left_out_and_counted() {
    let flip =
        "UPDATE journal SET changes = substr(changes, 1, 9) || x'00' || substr(changes, 11) WHERE number = 2";
    expect("flipped", flip, &["a", "b", "e"], 1, 0);
    expect("length", "UPDATE journal SET changes = x'ff' || substr(changes, 2)", &[], 3, 0);
    expect("empty", "UPDATE journal SET changes = x'' WHERE number = 3", &["a", "b", "c", "d"], 1, 0);
    expect("number", "UPDATE journal SET changes = 7 WHERE number = 1", &["c", "d", "e"], 1, 0);
    expect("text", "INSERT INTO bindings (aor, state) VALUES (x'78', 1.5)", &["a", "b", "c", "d", "e"], 1, 0);
}

#[test]
fn cut_rows_keep_their_whole_changes() {
    let cut = "UPDATE journal SET changes = substr(changes, 1, length(changes) - 15) WHERE number = 2";
    expect("cut", cut, &["a", "b", "c", "e"], 1, 0);
    // At the end of a change.
    let between = "UPDATE journal SET changes = substr(changes, 1, 15) WHERE number = 2";
    expect("cut-between", between, &["a", "b", "c", "e"], 1, 0);
}

#[test]
fn missing_rows_are_counted() {
    expect("missing", "DELETE FROM journal WHERE number = 2", &["a", "b", "e"], 0, 1);
}

#[test]
fn first_rows_are_missed() {
    expect("first", "DELETE FROM journal WHERE number = 1", &["c", "d", "e"], 0, 1);
    expect("firsts", "DELETE FROM journal WHERE number < 3", &["e"], 0, 2);
}

/// No number would be left for the next commit.
#[test]
fn excessive_numbers_are_removed() {
    let largest = i64::MAX;
    for (name, sql, users, missing) in [
        (
            "entry",
            format!("UPDATE journal SET number = {largest} WHERE number = 3"),
            &["a", "b", "c", "d"][..],
            1,
        ),
        (
            "committed",
            format!("UPDATE positions SET number = {largest} WHERE name = 'committed'"),
            &["a", "b", "c", "d", "e"],
            0,
        ),
        (
            "folded",
            format!("UPDATE positions SET number = {largest} WHERE name = 'folded'"),
            &["a", "b", "c", "d", "e"],
            0,
        ),
    ] {
        let file = spoilt(&format!("excessive-{name}"), &THREE, &sql);
        let mut store = SqliteStore::open(&file.0).unwrap();
        store.commit(&changes(&["f"])).unwrap();
        let damage = store.load(&mut |_, _, _| {}).unwrap();
        assert_eq!((damage.rows, damage.missing), (1, missing), "{name}");
        drop(store);
        let all: Vec<&str> = users.iter().copied().chain(["f"]).collect();
        assert_eq!(load(&file), (all.into_iter().map(str::to_owned).collect(), 0, missing), "{name}");
    }
}

/// SQLite stores text and blobs in a column of integers, and orders them after all numbers.
#[test]
fn numbers_that_are_none_are_damage() {
    for (name, value, users) in [
        ("committed", "'abc'", &["a", "b", "c", "d", "e"][..]),
        ("committed", "x'00'", &["a", "b", "c", "d", "e"]),
        ("committed", "1.5", &["a", "b", "c", "d", "e"]),
        ("folded", "'abc'", &["a", "b", "c", "d", "e"]),
    ] {
        let sql = format!("UPDATE positions SET number = {value} WHERE name = '{name}'");
        let file = spoilt(&format!("no-number-{name}"), &THREE, &sql);
        let users: Vec<String> = users.iter().copied().map(str::to_owned).collect();
        assert_eq!(load(&file), (users.clone(), 1, 0), "{name} {value}");
        assert_eq!(load(&file), (users, 0, 0), "{name} {value}: it is removed");
    }
}

/// What one failed start has found is found again by the next.
#[test]
fn failed_starts_repair_nothing() {
    let file = spoilt("failed", &THREE, "UPDATE positions SET number = 'abc' WHERE name = 'committed'");
    let connection = Connection::open(&file.0).unwrap();
    // Of another program: reading it fails.
    connection.execute_batch("CREATE TABLE worker_bindings (aor BLOB)").unwrap();
    drop(connection);
    let error = SqliteStore::open(&file.0).unwrap_err().to_string();
    assert!(error.contains("no such column"), "{error}");
    Connection::open(&file.0).unwrap().execute_batch("DROP TABLE worker_bindings").unwrap();
    let users = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
    assert_eq!(load(&file), (users, 1, 0));
}

/// SQLite would write into a device, or wait for a FIFO.
#[test]
fn only_regular_files_are_opened() {
    let file = File::new("folder");
    std::fs::create_dir(&file.0).unwrap();
    for (path, kind) in
        [(Path::new("/dev/zero"), "device"), (Path::new("/dev/null"), "device"), (&file.0, "directory")]
    {
        let error = SqliteStore::open(path).unwrap_err().to_string();
        assert!(error.contains(kind) && error.contains("no regular file"), "{error}");
    }
    std::fs::remove_dir(&file.0).unwrap();
}

#[test]
fn empty_files_have_lost_their_contents() {
    let file = File::new("empty");
    std::fs::write(&file.0, "").unwrap();
    assert_eq!(load(&file), (vec![], 1, 0));
    assert_eq!(load(&file), (vec![], 0, 0), "it is a new file now");
}

#[test]
fn last_rows_are_missed() {
    expect("last", "DELETE FROM journal WHERE number = 3", &["a", "b", "c", "d"], 0, 1);
    expect("all", "DELETE FROM journal", &[], 0, 3);
    // Their numbers are not used again.
    let file = spoilt("next", &THREE, "DELETE FROM journal WHERE number = 3");
    SqliteStore::open(&file.0).unwrap().commit(&changes(&["f"])).unwrap();
    assert_eq!(load(&file), (["a", "b", "c", "d", "f"].map(str::to_owned).to_vec(), 0, 1));
    // A version that didn't record them.
    let older = "DELETE FROM positions; DELETE FROM journal WHERE number = 3";
    expect("unrecorded", older, &["a", "b", "c", "d"], 0, 0);
}

/// Commits, folds everything, and then runs `sql`.
fn folded_and_spoilt(name: &str, sql: &str) -> File {
    let file = spoilt(name, &THREE, "");
    let mut store = SqliteStore::open(&file.0).unwrap();
    store.load(&mut |_, _, _| {}).unwrap();
    while store.idle().unwrap() {}
    store.connection.execute_batch(sql).unwrap();
    file
}

#[test]
fn damaged_folded_rows_are_left_out() {
    let all = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
    assert_eq!(load(&folded_and_spoilt("folded-whole", "")), (all.clone(), 0, 0));
    let changed = "UPDATE bindings SET state = replace(CAST(state AS TEXT), 'st', 'ST') WHERE aor = x'62'";
    let swapped = "UPDATE bindings SET aor = x'7a' WHERE aor = x'62'";
    for sql in [changed, swapped] {
        assert_eq!(load(&folded_and_spoilt("folded-changed", sql)).1, 1, "{sql}");
    }
    let older = "CREATE TABLE earlier AS SELECT aor, state FROM bindings; DROP TABLE bindings;
                 CREATE TABLE bindings (aor BLOB PRIMARY KEY, state BLOB NOT NULL) WITHOUT ROWID;
                 INSERT INTO bindings SELECT aor, state FROM earlier;";
    assert_eq!(load(&folded_and_spoilt("folded-earlier", older)), (all, 0, 0));
}

#[test]
fn rows_missing_after_a_fold_are_counted() {
    let file = File::new("folded");
    for _ in 0..2 {
        let mut store = SqliteStore::open(&file.0).unwrap();
        assert!(store.load(&mut |_, _, _| {}).unwrap().is_none());
        store.commit(&changes(&["a"])).unwrap();
        while store.idle().unwrap() {}
    }
    let mut store = SqliteStore::open(&file.0).unwrap();
    store.commit(&changes(&["b"])).unwrap();
    store.commit(&changes(&["c"])).unwrap();
    store.connection.execute("DELETE FROM journal WHERE number = 3", []).unwrap();
    drop(store);
    assert_eq!(load(&file), (vec!["a".to_owned(), "c".to_owned()], 0, 1));
}

#[test]
fn rows_without_a_seal_are_counted() {
    let file = File::new("unsealed");
    let store = SqliteStore::open(&file.0).unwrap();
    let insert = "INSERT INTO journal VALUES (1, ?1)";
    store.connection.execute(insert, [changes(&["a", "b"]).as_bytes()]).unwrap();
    drop(store);
    assert_eq!(load(&file), (vec!["a".to_owned(), "b".to_owned()], 1, 0));
}

#[test]
fn files_of_later_versions_are_refused() {
    let error = SqliteStore::open(&spoilt("later", &THREE, "PRAGMA user_version = 1").0).unwrap_err();
    assert!(error.cause.contains("later version"), "{error}");
}

#[test]
fn files_that_sqlite_cannot_read_are_refused() {
    let file = File::new("garbage");
    std::fs::write(&file.0, [7; 65536]).unwrap();
    let error = SqliteStore::open(&file.0).unwrap_err();
    assert!(error.cause.contains(".recover"), "{error}");
}

#[test]
fn damaged_secrets_are_replaced_once() {
    let file = spoilt("secret", &THREE, "INSERT INTO secrets VALUES ('key', x'0102')");
    let mut store = SqliteStore::open(&file.0).unwrap();
    assert_eq!(store.secret("key", [1; 16]).unwrap(), [1; 16]);
    assert_eq!(store.secret("key", [2; 16]).unwrap(), [1; 16]);
}

#[test]
fn removed_files_refuse_commits_until_they_are_back() {
    for end in ["", "-wal"] {
        let file = File::new(&format!("removed{end}"));
        let mut store = SqliteStore::open(&file.0).unwrap();
        store.commit(&changes(&["a"])).unwrap();
        std::fs::rename(file.beside(end), file.beside(".away")).unwrap();
        assert!(store.commit(&changes(&["b"])).unwrap_err().cause.contains("removed"));
        store.idle().unwrap_err();
        std::fs::rename(file.beside(".away"), file.beside(end)).unwrap();
        store.commit(&changes(&["b"])).unwrap();
        drop(store);
        assert_eq!(load(&file), (vec!["a".to_owned(), "b".to_owned()], 0, 0));
    }
}

#[test]
fn replaced_files_refuse_commits() {
    let file = File::new("replaced");
    let mut store = SqliteStore::open(&file.0).unwrap();
    store.commit(&changes(&["a"])).unwrap();
    std::fs::rename(&file.0, file.beside(".away")).unwrap();
    std::fs::write(&file.0, "").unwrap();
    assert!(store.commit(&changes(&["b"])).unwrap_err().cause.contains("replaced"));
}

/// The latest state of each user.
type Latest = std::collections::HashMap<String, String>;

fn commit_range(store: &mut SqliteStore, latest: &mut Latest, users: std::ops::Range<usize>, state: &str) {
    let mut journal = Journal::default();
    for user in users {
        journal.record_with(user.to_string().as_bytes(), |out| out.extend_from_slice(state.as_bytes()));
        latest.insert(user.to_string(), state.to_owned());
    }
    store.commit(&journal).unwrap();
}

fn log_of(path: &Path) -> std::path::PathBuf {
    format!("{}-wal", path.display()).into()
}

/// What a server finds that starts on a copy of the files, with the log as it was or cut.
fn after_a_crash(file: &File, log_len: u64) -> Latest {
    let copy = File::new("crash-copy");
    std::fs::copy(&file.0, &copy.0).unwrap();
    std::fs::copy(log_of(&file.0), log_of(&copy.0)).unwrap();
    std::fs::OpenOptions::new().write(true).open(log_of(&copy.0)).unwrap().set_len(log_len).unwrap();
    let mut found = Latest::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut store = SqliteStore::open(&copy.0).unwrap();
    let damage = store.load(&mut |_, aor, state| {
        found.insert(text(aor), text(state));
    });
    assert!(damage.unwrap().is_none());
    found
}

fn log_len(file: &File) -> u64 {
    std::fs::metadata(log_of(&file.0)).unwrap().len()
}

/// Cuts the log at many places within each of some commits of a round of folding.
#[test]
fn crash_while_folding_loses_no_commit() {
    /// As many users as make folding due, and how many change with each later commit.
    const USERS: usize = 50_000;
    const STEP: usize = 1000;
    const CUTS: u64 = 7;
    let file = File::new("crash");
    let mut store = SqliteStore::open(&file.0).unwrap();
    let mut latest = Latest::new();
    (0..USERS)
        .step_by(10_000)
        .for_each(|from| commit_range(&mut store, &mut latest, from..from + 10_000, "a\n"));
    assert!(store.folding.is_due());
    for number in 0.. {
        let (before, begin) = (latest.clone(), log_len(&file));
        let from = number * STEP % USERS;
        commit_range(&mut store, &mut latest, from..from + STEP, &format!("{number}\n"));
        let (end, is_last) = (log_len(&file), !store.folding.is_due());
        assert!(end > begin);
        if number % 8 == 0 || is_last {
            assert!(after_a_crash(&file, end) == latest, "after commit {number}");
            for cut in 1..CUTS {
                let at = begin + (end - begin) * cut / CUTS;
                assert!(after_a_crash(&file, at) == before, "commit {number} cut at {at}");
            }
        }
        if is_last {
            break;
        }
    }
    // The round is over: its users are in the table, and its rows have left the journal.
    let count = |sql: &str| store.connection.query_row(sql, [], |row| row.get::<_, usize>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM bindings"), USERS);
    assert_eq!(count("SELECT count(*) FROM journal WHERE number <= 5"), 0);
}

#[test]
fn damaged_table_does_not_stop_commits() {
    let file = File::new("damaged-table");
    let mut store = SqliteStore::open(&file.0).unwrap();
    let mut latest = Latest::new();
    (0..50_000)
        .step_by(10_000)
        .for_each(|from| commit_range(&mut store, &mut latest, from..from + 10_000, "a\n"));
    store.connection.execute_batch("ALTER TABLE bindings RENAME TO hidden").unwrap();
    commit_range(&mut store, &mut latest, 7..8, "b\n");
    assert_eq!(store.connection.query_row("SELECT max(number) FROM journal", [], |row| row.get(0)), Ok(6));
    // What was to be folded isn't forgotten.
    store.connection.execute_batch("ALTER TABLE hidden RENAME TO bindings").unwrap();
    while store.idle().unwrap() {}
    let state = "SELECT CAST(state AS TEXT) FROM bindings WHERE aor = x'37'";
    assert_eq!(store.connection.query_row(state, [], |row| row.get(0)), Ok("b\n".to_owned()));
}
