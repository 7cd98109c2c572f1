//! An in-memory database for tests, one for each thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use super::database::{Database, Entry, NodeRow, Run};
use super::folding::User;
use super::{Kind, NodeSettings, Shared, StoreError};

/// The contents of the database.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) nodes: Vec<NodeRow>,
    pub(super) journal: BTreeMap<(String, i64), Vec<u8>>,
}

thread_local! {
    static TABLES: RefCell<Tables> = RefCell::default();
}

/// Reads or changes the contents.
pub(super) fn with<T>(work: impl FnOnce(&mut Tables) -> T) -> T {
    TABLES.with_borrow_mut(work)
}

/// Adds a node.
pub(super) fn add_node(name: &str, trimmed: i64) {
    let (name, address) = (name.to_owned(), String::new());
    let row = NodeRow { name, address, beat: 1, age_ms: 0, trimmed, incarnation: 1 };
    with(|tables| tables.nodes.push(row));
}

/// The settings of node `a`.
pub(super) fn settings() -> Shared {
    let node = NodeSettings {
        name: "a".to_owned(),
        server: "a".to_owned(),
        address: String::new(),
        zone: 0,
        poll: Duration::ZERO,
        lease: Duration::from_secs(3600),
    };
    let (url, timeout) = (String::new(), Duration::ZERO);
    Shared { kind: Kind::PostgreSql, url, password: None, tls: None, timeout, replicas_min: 0, node }
}

pub(super) struct Fake;

impl Database for Fake {
    fn connect(_: &Shared) -> Result<Self, StoreError> {
        Ok(Self)
    }

    fn nodes(&mut self) -> Result<Vec<NodeRow>, StoreError> {
        Ok(with(|tables| tables.nodes.clone()))
    }

    fn enter(&mut self, _: &Run, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn beat(&mut self, _: &Run, _: bool) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn append(&mut self, run: &Run, number: i64, changes: &[u8]) -> Result<bool, StoreError> {
        with(|tables| tables.journal.insert((run.name.clone(), number), changes.to_vec()));
        Ok(true)
    }

    fn last(&mut self, name: &str) -> Result<i64, StoreError> {
        Ok(self.journal(name, 0)?.last().map_or(0, |(number, _)| *number))
    }

    fn fold(&mut self, _: &Run, _: &[User]) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn trim(&mut self, _: &str, _: i64) -> Result<(), StoreError> {
        Ok(())
    }

    fn bindings(&mut self, _: &str, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        Ok(())
    }

    fn journal(&mut self, name: &str, after: i64) -> Result<Vec<Entry>, StoreError> {
        let is_wanted = |(of, number): &(String, i64)| of == name && *number > after;
        Ok(with(|tables| {
            let found = tables.journal.iter().filter(|(key, _)| is_wanted(key));
            found.map(|((_, number), changes)| (*number, changes.clone())).collect()
        }))
    }

    fn secret(&mut self, _: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        Ok(fresh)
    }
}
