//! Stores that keep bindings beyond the life of the server.

#[cfg(not(feature = "databases"))]
mod absent;
mod damage;
mod database;
#[cfg(test)]
mod fake;
mod feed;
mod folding;
mod gathering;
#[cfg(feature = "databases")]
mod mysql;
#[cfg(feature = "databases")]
mod postgresql;
#[cfg(feature = "databases")]
mod postgresql_tls;
#[cfg(feature = "databases")]
mod redis;
mod settings;
mod shared;
mod sqlite;
mod sqlite_file;
mod sqlite_file_identity;
mod sqlite_plain;
mod sqlite_workers;
mod stats;
mod subscribers;
#[cfg(test)]
mod temporary;
mod writer;

use crate::bindings::Journal;

#[cfg(not(feature = "databases"))]
use absent::{Absent as MySql, Absent as PostgreSql, Absent as Redis};
#[cfg(feature = "databases")]
use {mysql::MySql, postgresql::PostgreSql, redis::Redis};

pub use damage::Damage;
pub use feed::{Feed, News, PeerNode};
pub use settings::{Kind, NodeSettings, Shared};
pub use shared::SharedStore;
pub use sqlite::SqliteStore;
pub use sqlite_file::other_kind;
pub use sqlite_workers::{ALONE, SqliteWorkers, States, worker_name};
pub use stats::{StoreFigures, StoreStats};
pub use subscribers::{Found, Seeker, SubscriberTable};
pub use writer::{Done, Writer};

/// What a program says that was built without databases.
pub const DATABASES_MISSING: &str = "this program was built without databases: build it with `make build`, or with cargo's `--features databases`";

/// An error of a store.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what}: {cause}")]
pub struct StoreError {
    /// The operation that failed.
    pub what: String,
    /// The cause.
    pub cause: String,
    /// True if the operation will never succeed, so the server must end.
    pub is_final: bool,
}

impl StoreError {
    pub(crate) fn new(what: impl Into<String>, cause: impl ToString) -> Self {
        Self { what: what.into(), cause: cause.to_string(), is_final: false }
    }
}

/// A callback for loading. It receives the name of a node (empty for this node), an address of record, and
/// its bindings there.
pub type Each<'a> = dyn FnMut(&str, &[u8], &[u8]) + 'a;

/// Keeps bindings. A store is used by one thread, which may block on disks.
pub trait Store: Send {
    /// Passes all users and their bindings to `each`; later commits of a user are passed after earlier ones.
    /// Returns the damage found, which was skipped.
    ///
    /// # Errors
    /// Returns an error if they can't be read.
    fn load(&mut self, each: &mut Each<'_>) -> Result<Damage, StoreError>;

    /// Persists changes atomically. Once it returns, they survive a crash of the machine.
    ///
    /// # Errors
    /// Returns an error if they can't be written, or if it is unknown whether they were. The caller may
    /// commit them again, together with later ones: a change is the full state of a user, so it can be
    /// repeated.
    fn commit(&mut self, changes: &Journal) -> Result<(), StoreError>;

    /// Does one step of maintenance when there is nothing to commit. Returns whether more remains.
    ///
    /// # Errors
    /// Returns an error if it can't write.
    fn idle(&mut self) -> Result<bool, StoreError>;
}
