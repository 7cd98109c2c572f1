#![allow(clippy::unwrap_used, clippy::panic)]
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::store::{Damage, Each};
use crate::transaction::{Flow, Protocol};

/// A store whose commits succeed or fail as ordered.
struct StartupMessage {
    orders: Receiver<Result<(), StoreError>>,
    commits: Sender<Vec<u8>>,
}

impl Store for StartupMessage {
    fn load(&mut self, _: &mut Each<'_>) -> Result<Damage, StoreError> {
        Ok(Damage::default())
    }

    fn commit(&mut self, changes: &Journal) -> Result<(), StoreError> {
        self.commits.send(changes.as_bytes().to_vec()).unwrap();
        self.orders.recv().unwrap_or(Ok(()))
    }

    fn idle(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }
}

struct World {
    writer: Writer,
    orders: Sender<Result<(), StoreError>>,
    commits: Receiver<Vec<u8>>,
    done: Receiver<Done>,
}

const TIMEOUT: Duration = Duration::from_secs(60);

fn world() -> World {
    let (orders, told) = channel();
    let (committing, commits) = channel();
    let (sender, done) = channel();
    let store = StartupMessage { orders: told, commits: committing };
    let tell = move |done| sender.send(done).unwrap();
    let writer = Writer::start(Box::new(store), Arc::default(), tell).unwrap();
    World { writer, orders, commits, done }
}

impl World {
    fn submit(&self, user: &str, at_ms: u64) -> u64 {
        let (mut journal, mut held) = (Journal::default(), Outbox::new());
        journal.record_with(user.as_bytes(), |out| out.extend_from_slice(b"state"));
        held.push(Flow::to(Protocol::Udp, "192.0.2.1:5060".parse().unwrap()), None, user.as_bytes());
        self.writer.submit(&mut journal, &mut held, Duration::from_millis(at_ms))
    }

    /// The users of the next commit.
    fn committed(&self) -> Vec<String> {
        let bytes = self.commits.recv_timeout(TIMEOUT).unwrap();
        Journal::read(&bytes).map(|(user, _)| String::from_utf8(user.to_vec()).unwrap()).collect()
    }

    fn done(&self) -> Done {
        self.done.recv_timeout(TIMEOUT).unwrap()
    }
}

fn failure(is_final: bool) -> Result<(), StoreError> {
    Err(StoreError { is_final, ..StoreError::new("writing", "told to fail") })
}

#[test]
fn failed_write_is_refused_and_retried() {
    let world = world();
    world.submit("alice", 0);
    assert_eq!(world.committed(), ["alice"]);
    let second = world.submit("bob", 1);
    world.orders.send(failure(false)).unwrap();
    assert!(matches!(world.done(), Done::Failed { held } if held.len() == 1));
    assert_eq!(world.committed(), ["alice", "bob"]);
    world.orders.send(Ok(())).unwrap();
    assert!(matches!(world.done(), Done::Durable { held, through } if held.len() == 1 && through == second));
    let figures = world.writer.stats().figures();
    assert_eq!((figures.commits, figures.failures, figures.is_failing), (1, 1, false));
}

#[test]
fn late_commit_is_not_acknowledged() {
    let world = world();
    world.submit("alice", 100);
    assert_eq!(world.committed(), ["alice"]);
    assert!(world.writer.overdue(Duration::from_millis(99)).is_empty());
    assert_eq!(world.writer.overdue(Duration::from_millis(100)).len(), 1);
    world.orders.send(Ok(())).unwrap();
    // It became durable after all, which does no harm.
    assert!(matches!(world.done(), Done::Durable { held, through: 1 } if held.is_empty()));
}

#[test]
fn lost_store_is_reported_and_shutdown_gives_up() {
    let world = world();
    world.submit("alice", 0);
    world.orders.send(failure(true)).unwrap();
    assert!(matches!(world.done(), Done::Failed { held } if held.len() == 1));
    assert!(matches!(world.done(), Done::Lost(_)));
    let World { writer, orders, commits: _commits, done } = self::world();
    let (mut journal, mut held) = (Journal::default(), Outbox::new());
    journal.record_with(b"bob", |_| {});
    writer.submit(&mut journal, &mut held, Duration::ZERO);
    for _ in 0..3 {
        orders.send(failure(false)).unwrap();
    }
    drop(orders);
    drop(writer);
    assert!(done.iter().all(|done| !matches!(done, Done::Lost(_))));
}

#[test]
fn failures_are_logged_once_for_each_reason() {
    let mut complaint = Complaint::default();
    let (one, other) = (StoreError::new("writing", "one"), StoreError::new("writing", "other"));
    let logged = [&one, &one, &one, &other, &other].map(|error| complaint.failed(error));
    assert_eq!(logged, [true, false, false, true, false]);
    complaint.done();
    assert!(complaint.failed(&other));
}
