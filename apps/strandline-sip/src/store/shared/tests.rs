#![allow(clippy::unwrap_used)]

use super::*;
use crate::store::fake::{Fake, add_node, settings, with};

fn entry(user: &str) -> Vec<u8> {
    let mut journal = Journal::default();
    journal.record_with(user.as_bytes(), |out| out.extend_from_slice(b"state\n"));
    Journal::sealed(journal.as_bytes())
}

fn write(node: &str, number: i64, changes: Vec<u8>) {
    with(|tables| tables.journal.insert((node.to_owned(), number), changes));
}

fn load() -> (Vec<String>, Damage) {
    let mut store = Journaled::<Fake>::open(&Arc::new(settings()), 1).unwrap();
    let mut users = Vec::new();
    let damage = store.load(&mut |_, aor, _| users.push(String::from_utf8(aor.to_vec()).unwrap())).unwrap();
    (users, damage)
}

#[test]
fn damage_in_shared_journals_is_counted() {
    add_node("b", 10);
    for number in 11..20 {
        write("b", number, entry(&format!("u{number}")));
    }
    assert_eq!(load().1, Damage::default());
    // The first entry, some in the middle, truncated ones, and a changed one.
    with(|tables| tables.journal.retain(|(_, number), _| ![11, 14, 15].contains(number)));
    write("b", 17, entry("u17").into_iter().take(8).collect());
    let mut changed = entry("u18");
    changed.swap(4, 5);
    write("b", 18, changed);
    // Truncated after its change.
    let end = change("u19").as_bytes().len();
    write("b", 19, entry("u19").into_iter().take(end).collect());
    let (users, damage) = load();
    assert_eq!(
        (users.as_slice(), damage.rows, damage.missing),
        (["u12", "u13", "u16", "u19"].map(String::from).as_slice(), 3, 3)
    );
}

#[test]
fn commits_are_sealed() {
    let mut store = Journaled::<Fake>::open(&Arc::new(settings()), 1).unwrap();
    let mut changes = Journal::default();
    changes.record_with(b"alice", |out| out.extend_from_slice(b"state\n"));
    store.commit(&changes).unwrap();
    let written = with(|tables| tables.journal.values().next().cloned());
    assert_eq!(written, Some(Journal::sealed(changes.as_bytes())));
}

fn change(user: &str) -> Journal {
    let mut changes = Journal::default();
    changes.record_with(user.as_bytes(), |out| out.extend_from_slice(b"state\n"));
    changes
}

fn entries() -> Vec<(i64, Vec<u8>)> {
    with(|tables| tables.journal.iter().map(|((_, number), entry)| (*number, entry.clone())).collect())
}

#[test]
fn journals_lost_end_is_written_again() {
    let mut store = Journaled::<Fake>::open(&Arc::new(settings()), 1).unwrap();
    store.load(&mut |_, _, _| {}).unwrap();
    for number in 1..=4 {
        store.commit(&change(&format!("u{number}"))).unwrap();
    }
    // All of them are folded.
    while store.folding.take(store.last, FOLD).1.is_none() {}
    store.folded.push_back((now(), 4));
    let before = entries();
    // The connection ends, and the database that answers then has only two.
    with(|tables| tables.journal.retain(|(_, number), _| *number <= 2));
    store.database = None;
    store.commit(&change("u5")).unwrap();
    let after = entries();
    assert_eq!((after.len(), &after[..4]), (5, &before[..]));
    assert_eq!(after[4], (5, entry("u5")));
    assert_eq!(store.lost.lock().unwrap().missing, 2);
    // They are folded again before they are trimmed.
    assert!(store.folded.is_empty());
    let (mut users, through) = store.folding.take(store.last, FOLD);
    users.sort_unstable();
    let users: Vec<&[u8]> = users.iter().map(|(aor, _)| &aor[..]).collect();
    assert_eq!(
        (users, through),
        ([b"u1", b"u2", b"u3", b"u4", b"u5"].map(|user| &user[..]).to_vec(), Some(5))
    );
}

#[test]
fn numbers_of_lost_entries_are_not_used_again() {
    let mut store = Journaled::<Fake>::open(&Arc::new(settings()), 1).unwrap();
    store.load(&mut |_, _, _| {}).unwrap();
    // More than is kept.
    let large = "u".repeat(RECENT_BYTES / 4);
    for number in 1..=8 {
        store.commit(&change(&format!("{number}{large}"))).unwrap();
    }
    let kept: Vec<i64> = store.recent.entries.iter().map(|(number, _)| *number).collect();
    assert_eq!(kept, [6, 7, 8]);
    with(|tables| tables.journal.clear());
    store.database = None;
    store.commit(&change("u9")).unwrap();
    let numbers: Vec<i64> = entries().iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [6, 7, 8, 9]);
    assert_eq!(store.lost.lock().unwrap().missing, 8);
}
