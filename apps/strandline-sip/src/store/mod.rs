//! Where bindings are kept for longer than the server lives.

mod sqlite;
mod writer;

use crate::location::Journal;

pub use sqlite::SqliteStore;
pub use writer::{Done, Writer};

/// What keeps a store from doing what it should.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {cause}")]
pub struct StoreError {
    /// What was tried.
    pub what: String,
    /// Why it failed.
    pub cause: String,
}

/// Keeps bindings. It is used by one thread, which may wait for disks.
pub trait Store: Send {
    /// Shows all users and their bindings to `each`: what was committed last of each comes last.
    ///
    /// # Errors
    /// If they can't be read.
    fn load(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError>;

    /// Writes changes down, all or none. When this returns, they survive a crash of the machine.
    ///
    /// # Errors
    /// If they can't be written.
    fn commit(&mut self, changes: &Journal) -> Result<(), StoreError>;

    /// Puts in order what was committed, a little at a time, when there is nothing to commit. Returns whether there is more
    /// to do.
    ///
    /// # Errors
    /// If it can't be written.
    fn idle(&mut self) -> Result<bool, StoreError>;
}
