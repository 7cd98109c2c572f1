//! Where bindings are kept for longer than the server lives.

mod damage;
mod database;
#[cfg(test)]
mod fake;
mod feed;
mod folding;
mod gathering;
mod mysql;
mod postgresql;
mod redis;
mod settings;
mod shared;
mod sqlite;
mod sqlite_file;
mod sqlite_place;
mod sqlite_plain;
mod sqlite_workers;
mod stats;
mod subscribers;
#[cfg(test)]
mod temporary;
mod writer;

use crate::bindings::Journal;

pub use damage::Damage;
pub use feed::{Feed, News, PeerNode};
pub use settings::{Kind, NodeSettings, Shared};
pub use shared::SharedStore;
pub use sqlite::SqliteStore;
pub use sqlite_workers::{ALONE, SqliteWorkers, States, worker_name};
pub use stats::{StoreFigures, StoreStats};
pub use subscribers::{Found, Seeker, SubscriberTable};
pub use writer::{Done, Writer};

/// What keeps a store from doing what it should.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what}: {cause}")]
pub struct StoreError {
    /// What was tried.
    pub what: String,
    /// Why it failed.
    pub cause: String,
    /// It will fail for ever: the server has to end.
    pub is_final: bool,
}

impl StoreError {
    pub(crate) fn new(what: impl Into<String>, cause: impl ToString) -> Self {
        Self { what: what.into(), cause: cause.to_string(), is_final: false }
    }
}

/// What a store shows: the name of a node, or an empty text for this one; an address of record; its bindings there.
pub type Each<'a> = dyn FnMut(&str, &[u8], &[u8]) + 'a;

/// Keeps bindings. It is used by one thread, which may wait for disks.
pub trait Store: Send {
    /// Shows all users and their bindings to `each`: what was committed last of each comes last. Returns what is damaged, which
    /// is left out.
    ///
    /// # Errors
    /// If they can't be read.
    fn load(&mut self, each: &mut Each<'_>) -> Result<Damage, StoreError>;

    /// Writes changes down, all or none. When this returns, they survive a crash of the machine.
    ///
    /// # Errors
    /// If they can't be written, or nobody can tell whether they were. The same changes may be committed again, with what
    /// has changed meanwhile: a change is all that a user has, so writing it twice does no harm.
    fn commit(&mut self, changes: &Journal) -> Result<(), StoreError>;

    /// Puts in order what was committed, a little at a time, when there is nothing to commit. Returns whether there is more
    /// to do.
    ///
    /// # Errors
    /// If it can't be written.
    fn idle(&mut self) -> Result<bool, StoreError>;
}
