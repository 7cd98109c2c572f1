use std::cell::Cell;

use super::*;
use crate::store::temporary::File;

/// A table that contains every user, and fails if a requested name contains `!`.
struct Fussy;

impl Table for Fussy {
    fn rows(&mut self, users: &[&[u8]]) -> Result<Vec<Row>, StoreError> {
        if users.iter().any(|user| user.contains(&b'!')) {
            return Err(StoreError::new("reading", "no such letter"));
        }
        let row = |user: &&[u8]| (user.to_vec(), Vec::new(), [Some(b"secret".to_vec()), None, None, None]);
        Ok(users.iter().map(row).collect())
    }
}

/// The result for each user: `None` if the lookup failed, otherwise whether the user exists.
fn told(table: Opener<'_>, users: &[&[u8]]) -> Vec<Option<bool>> {
    let (wanted, queue) = channel();
    for user in users {
        let who = Subscriber { user: (*user).into(), domain: b"example.com"[..].into() };
        wanted.send(who).expect("the other end is here");
    }
    drop(wanted);
    let mut told = Vec::new();
    seek(table, &queue, |(_, found)| told.push(found.map(|secret| secret.is_some())));
    told
}

#[test]
fn unstorable_name_locks_nobody_out() {
    let users: [&[u8]; 4] = [b"ann", b"x!", b"bob", b"y!"];
    let found = told(&|| Ok(Box::new(Fussy)), &users);
    assert_eq!(found, [Some(true), None, Some(true), None]);
}

#[test]
fn names_with_nul_or_256_bytes_are_unknown() {
    let long = [b'a'; NAME_MAX + 1];
    let found = told(&|| Ok(Box::new(Fussy)), &[b"x\0", &long, &long[1..]]);
    assert_eq!(found, [Some(false), Some(false), Some(true)]);
}

#[test]
fn missing_table_is_queried_twice_only() {
    let opened = Cell::new(0);
    let open = || {
        opened.set(opened.get() + 1);
        Err(StoreError::new("opening", "it is not there"))
    };
    let users: Vec<&[u8]> = vec![b"ann"; AT_ONCE];
    assert_eq!(told(&open, &users), vec![None; AT_ONCE]);
    assert_eq!(opened.get(), 2);
}

#[test]
fn replaced_sqlite_files_are_read_anew() {
    let (file, other) = (File::new("subscribers"), File::new("other-subscribers"));
    for (file, user) in [(&file, "ann"), (&other, "bob")] {
        create(&file.0).expect("the folder is there");
        let connection = Connection::open(&file.0).expect("the file is there");
        let insert = "INSERT INTO subscribers (username, domain, password) VALUES (?1, '', 'x')";
        connection.execute(insert, [user]).expect("the table is there");
    }
    let mut table = Sqlite::open(&file.0).expect("the file is there");
    assert_eq!(table.rows(&[b"ann", b"bob"]).expect("it can be read")[0].0, b"ann");
    std::fs::rename(&other.0, &file.0).expect("they are in one folder");
    assert_eq!(table.rows(&[b"ann", b"bob"]).expect("it can be read")[0].0, b"bob");
}
