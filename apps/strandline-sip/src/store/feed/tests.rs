#![allow(clippy::unwrap_used)]

use super::*;
use crate::store::fake::{Fake, add_node, settings, with};

fn write(number: i64, user: &str) {
    let mut journal = Journal::default();
    journal.record_with(user.as_bytes(), |out| out.extend_from_slice(b"state\n"));
    with(|tables| tables.journal.insert(("b".to_owned(), number), Journal::sealed(journal.as_bytes())));
}

/// The news of one step: `again`, or users.
fn step(follower: &mut Follower<Fake>) -> Vec<String> {
    let mut flush = Vec::new();
    follower
        .step(&mut |news| match news {
            News::Again { .. } => flush.push("again".to_owned()),
            News::Changes { changes, .. } => {
                flush.extend(
                    Journal::read(&changes).map(|(user, _)| String::from_utf8(user.to_vec()).unwrap()),
                );
            }
            _ => {}
        })
        .unwrap();
    flush
}

fn follower() -> Follower<Fake> {
    add_node("b", 0);
    let run = Run { name: "a".to_owned(), incarnation: 1 };
    Follower::new(Arc::new(settings()), run, Positions::from([("b".to_owned(), 0)]))
}

#[test]
fn lost_entries_of_others_are_counted_once() {
    let mut follower = follower();
    write(1, "one");
    assert_eq!(step(&mut follower), ["one"]);
    write(4, "four");
    write(6, "six");
    with(|tables| tables.journal.insert(("b".to_owned(), 5), vec![9; 9]));
    assert_eq!(step(&mut follower), ["four", "six"]);
    assert_eq!((follower.damage.rows, follower.damage.missing), (1, 2));
    write(7, "seven");
    assert_eq!(step(&mut follower), ["seven"]);
    assert_eq!((follower.damage.rows, follower.damage.missing), (1, 2));
}

#[test]
fn trimmed_entries_of_others_are_no_damage() {
    let mut follower = follower();
    assert!(step(&mut follower).is_empty());
    write(4, "four");
    with(|tables| tables.nodes.iter_mut().for_each(|node| node.trimmed = 3));
    assert!(step(&mut follower).is_empty());
    assert_eq!(step(&mut follower), ["again", "four"]);
    assert!(follower.damage.is_none());
}
