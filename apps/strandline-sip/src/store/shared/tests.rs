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
    // The first entry, some in the middle, a truncated one, and a changed one.
    with(|tables| tables.journal.retain(|(_, number), _| ![11, 14, 15].contains(number)));
    write("b", 17, entry("u17").into_iter().take(8).collect());
    let mut changed = entry("u18");
    changed.swap(4, 5);
    write("b", 18, changed);
    let (users, damage) = load();
    assert_eq!(
        (users.as_slice(), damage.rows, damage.missing),
        (["u12", "u13", "u16", "u19"].map(String::from).as_slice(), 2, 3)
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
