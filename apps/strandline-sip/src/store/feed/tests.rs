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
    let position = Position { incarnation: 1, ..Position::default() };
    Follower::new(Arc::new(settings()), run, Positions::from([("b".to_owned(), position)]), Arc::default())
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

/// The node starts again.
fn restart() {
    with(|tables| tables.nodes.iter_mut().for_each(|node| node.incarnation += 1));
}

/// Looks at the nodes, which is otherwise due only after some time.
fn look(follower: &mut Follower<Fake>) -> Vec<String> {
    follower.looked = None;
    step(follower)
}

#[test]
fn journal_without_its_end_is_read_again() {
    let mut follower = follower();
    for (number, user) in [(1, "one"), (2, "two"), (3, "three")] {
        write(number, user);
    }
    assert_eq!(step(&mut follower), ["one", "two", "three"]);
    // A replica without the last two takes over, and the node starts again and uses their numbers.
    with(|tables| tables.journal.retain(|(_, number), _| *number < 2));
    restart();
    write(2, "new");
    write(3, "newer");
    write(4, "newest");
    assert_eq!(look(&mut follower), ["again", "one", "new", "newer", "newest"]);
    assert_eq!(follower.damage.missing, 1, "the last entry that was read is another now");
    assert!(look(&mut follower).is_empty());
    // It does so again, and has written nothing yet.
    with(|tables| tables.journal.retain(|(_, number), _| *number < 2));
    restart();
    assert_eq!(look(&mut follower), ["again", "one"]);
    assert_eq!(follower.damage.missing, 4);
    write(2, "two");
    assert_eq!(step(&mut follower), ["two"]);
}

#[test]
fn restarted_nodes_journal_is_not_read_again() {
    let mut follower = follower();
    write(1, "one");
    assert_eq!(step(&mut follower), ["one"]);
    restart();
    assert!(look(&mut follower).is_empty());
    // All of it has been folded and trimmed.
    with(|tables| {
        tables.journal.clear();
        tables.nodes.iter_mut().for_each(|node| node.trimmed = 1);
    });
    restart();
    assert!(look(&mut follower).is_empty());
    write(2, "two");
    assert_eq!(look(&mut follower), ["two"]);
    assert!(follower.damage.is_none());
}
