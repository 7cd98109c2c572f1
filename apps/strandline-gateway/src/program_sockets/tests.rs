use std::sync::Arc;

use super::{KEPT, KEPT_MAX, Key, Sockets};
use crate::clock::now;
use crate::preload_request::{Outcome, answer};
use crate::protocol::Reason;

fn key(number: u64) -> Key {
    ([127, 0, 0, 1].into(), number)
}

#[test]
fn connections_are_known_while_they_last() {
    let (sockets, to) = (Arc::new(Sockets::default()), "192.0.2.7:443".parse().unwrap());
    let listed = sockets.begin(key(1), to);
    assert_eq!(sockets.answer(key(1)), answer(Some(to), Outcome::Pending));
    listed.set(Outcome::Connected);
    assert_eq!(sockets.answer(key(1)), answer(Some(to), Outcome::Connected));
    drop(listed);
    assert_eq!(sockets.answer(key(1)), answer(None, Outcome::Unknown));
}

#[test]
fn failures_are_kept_but_not_for_ever() {
    let (sockets, to) = (Arc::new(Sockets::default()), "192.0.2.7:443".parse().unwrap());
    let failed = Outcome::Failed(Reason::Refused);
    for number in 0..=KEPT_MAX as u64 {
        sockets.begin(key(number), to).set(failed);
    }
    assert_eq!(sockets.answer(key(0)), answer(None, Outcome::Unknown), "one too many");
    assert_eq!(sockets.answer(key(1)), answer(Some(to), failed));
    // The socket connects again, and its first failure is forgotten.
    let listed = sockets.begin(key(1), to);
    sockets.lock().keep(key(0), 0, now() + KEPT);
    assert_eq!(sockets.answer(key(1)), answer(Some(to), Outcome::Pending));
    assert_eq!(sockets.answer(key(2)), answer(None, Outcome::Unknown), "its time is over");
    drop(listed);
}
