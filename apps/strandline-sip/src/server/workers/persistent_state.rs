//! The state that the supervisor keeps for its workers: in memory, and in a file.

use std::collections::HashMap;

use crate::bindings::Journal;
use crate::store::{Damage, SqliteWorkers, States, StoreError};

/// The state of each worker's users, from which a replacement worker is initialised.
#[derive(Debug, Default)]
pub(super) struct Table {
    states: States,
    /// Damage found in the file.
    pub(super) damage: Damage,
}

impl Table {
    pub(super) fn new(mut states: States, count: u8, damage: Damage) -> Self {
        states.resize_with(usize::from(count), HashMap::new);
        Self { states, damage }
    }

    /// Applies the changes of a worker.
    pub(super) fn apply(&mut self, worker: u8, changes: &[u8]) {
        let Some(users) = self.states.get_mut(usize::from(worker)) else { return };
        for (aor, state) in Journal::read(changes) {
            match users.get_mut(aor) {
                Some(_) if state.is_empty() => {
                    users.remove(aor);
                }
                Some(place) => {
                    place.clear();
                    place.extend_from_slice(state);
                }
                None if state.is_empty() => {}
                None => {
                    users.insert(aor.into(), state.into());
                }
            }
        }
    }

    /// Passes the state of each worker to `each`, as journals of about `bytes` bytes.
    pub(super) fn show(&self, bytes: usize, mut each: impl FnMut(u8, &[u8])) {
        for (worker, users) in (0u8..).zip(&self.states) {
            let mut some = Journal::default();
            for (aor, state) in users {
                some.record_with(aor, |out| out.extend_from_slice(state));
                if some.as_bytes().len() >= bytes {
                    each(worker, some.as_bytes());
                    some.clear();
                }
            }
            if !some.is_empty() {
                each(worker, some.as_bytes());
            }
        }
    }
}

/// The persistent store.
pub(super) enum Keep {
    /// No store: the state lives as long as the supervisor.
    Memory,
    Sqlite(SqliteWorkers),
}

impl Keep {
    /// Persists changes atomically.
    pub(super) fn commit(&mut self, changes: &[(u8, &[u8])]) -> Result<(), StoreError> {
        match self {
            Self::Memory => Ok(()),
            Self::Sqlite(store) => store.commit(changes),
        }
    }

    /// Does one step of maintenance. Returns whether more remains.
    pub(super) fn idle(&mut self) -> bool {
        match self {
            Self::Memory => false,
            Self::Sqlite(store) => store.idle().unwrap_or_else(|error| {
                tracing::warn!(%error, "compacting the store failed");
                false
            }),
        }
    }
}
