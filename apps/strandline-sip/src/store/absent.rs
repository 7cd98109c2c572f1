//! In place of the databases in a program that was built without them: connecting fails.

use core::convert::Infallible;

use super::database::{Database, Entry, NodeRow, Run, SubscriberRow};
use super::folding::User;
use super::{DATABASES_MISSING, Shared, StoreError};

/// A connection that can't exist.
pub(super) struct Absent(Infallible);

impl Absent {
    /// Fails, as [`connect`](Database::connect) does.
    pub(super) fn open(settings: &Shared) -> Result<Self, StoreError> {
        Self::connect(settings)
    }

    pub(super) fn subscribers(&mut self, _users: &[&[u8]]) -> Result<Vec<SubscriberRow>, StoreError> {
        match self.0 {}
    }
}

impl Database for Absent {
    fn connect(settings: &Shared) -> Result<Self, StoreError> {
        let what = format!("connecting to {}", settings.kind.name());
        Err(StoreError { is_final: true, ..StoreError::new(what, DATABASES_MISSING) })
    }

    fn nodes(&mut self) -> Result<Vec<NodeRow>, StoreError> {
        match self.0 {}
    }

    fn enter(&mut self, _run: &Run, _address: &str) -> Result<(), StoreError> {
        match self.0 {}
    }

    fn beat(&mut self, _run: &Run, _left: bool) -> Result<bool, StoreError> {
        match self.0 {}
    }

    fn append(&mut self, _run: &Run, _number: i64, _changes: &[u8]) -> Result<bool, StoreError> {
        match self.0 {}
    }

    fn last(&mut self, _name: &str) -> Result<i64, StoreError> {
        match self.0 {}
    }

    fn fold(&mut self, _run: &Run, _users: &[User]) -> Result<bool, StoreError> {
        match self.0 {}
    }

    fn trim(&mut self, _name: &str, _to: i64) -> Result<(), StoreError> {
        match self.0 {}
    }

    fn bindings(&mut self, _name: &str, _each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        match self.0 {}
    }

    fn journal(&mut self, _name: &str, _after: i64) -> Result<Vec<Entry>, StoreError> {
        match self.0 {}
    }

    fn secret(&mut self, _name: &str, _fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        match self.0 {}
    }
}
