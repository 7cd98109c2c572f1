//! The operations that a shared store needs of any database.
//!
//! The tables are: nodes (name, address, incarnation, a counter that increases while the node is alive, and
//! the last trimmed journal entry), and for each node its bindings (one row for each user, with the user's
//! state at that node) and its journal (one row for each commit, numbered without gaps). Only the node itself
//! writes its rows of bindings and journal.

use std::collections::HashMap;
use std::time::Duration;

use crate::bindings::Journal;

use super::folding::User;
use super::{Shared, StoreError};

/// A row of the table of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeRow {
    pub(super) name: String,
    pub(super) address: String,
    /// Changes while the node is alive; negative once it has left.
    pub(super) beat: i64,
    /// Milliseconds since the last change of `beat`, by the database's clock.
    pub(super) age_ms: i64,
    /// The number of the last trimmed journal entry.
    pub(super) trimmed: i64,
    /// Differs between the runs of the node.
    pub(super) incarnation: i64,
}

/// A journal entry: its number and its changes.
pub(super) type Entry = (i64, Vec<u8>);

/// One run of a node. Each run has a different incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) name: String,
    pub(super) incarnation: i64,
}

/// A connection to a database. After an error it is closed and replaced.
pub(super) trait Database: Sized + Send + 'static {
    /// Connects, and creates missing tables.
    fn connect(settings: &Shared) -> Result<Self, StoreError>;

    /// All nodes that have ever existed.
    fn nodes(&mut self) -> Result<Vec<NodeRow>, StoreError>;

    /// Registers this run as the node, in place of any earlier run.
    fn enter(&mut self, run: &Run, address: &str) -> Result<(), StoreError>;

    /// Signals that the node is alive or, with `left`, that it has left. Returns false if another run has
    /// replaced this one.
    fn beat(&mut self, run: &Run, left: bool) -> Result<bool, StoreError>;

    /// Appends a durable entry to the journal. Returns false if another run has replaced this one.
    fn append(&mut self, run: &Run, number: i64, changes: &[u8]) -> Result<bool, StoreError>;

    /// The number of the last entry in a node's journal, or the last trimmed one. The next number must be
    /// larger.
    fn last(&mut self, name: &str) -> Result<i64, StoreError>;

    /// Writes the states of users into the table of bindings; no row is removed. Returns false if another run
    /// has replaced this one.
    fn fold(&mut self, run: &Run, users: &[User]) -> Result<bool, StoreError>;

    /// Removes entries up to `to` from the node's journal.
    fn trim(&mut self, name: &str, to: i64) -> Result<(), StoreError>;

    /// Passes all users of a node and their states to `each`.
    fn bindings(&mut self, name: &str, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError>;

    /// The entries of a node's journal after `after`, in order. If there are many, only the first ones.
    fn journal(&mut self, name: &str, after: i64) -> Result<Vec<Entry>, StoreError>;

    /// A persistent secret. `fresh` becomes its value the first time.
    fn secret(&mut self, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError>;
}

/// How far the journal of a node was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Position {
    /// The number of the last entry that was read, or that was trimmed before.
    pub(super) number: i64,
    /// A checksum of that entry, if it was read.
    pub(super) entry: Option<i64>,
    /// The run of the node that was seen last.
    pub(super) incarnation: i64,
}

impl Position {
    /// Before the entries of a node that were not trimmed.
    pub(super) const fn before(row: &NodeRow) -> Self {
        Self { number: row.trimmed, entry: None, incarnation: row.incarnation }
    }

    /// Records that an entry was read.
    pub(super) fn read(&mut self, number: i64, changes: &[u8]) {
        (self.number, self.entry) = (number, Some(checksum(changes)));
    }
}

/// A checksum of an entry.
pub(super) fn checksum(changes: &[u8]) -> i64 {
    Journal::checksum_of(&[], changes)
}

/// For each node, how far its journal was read.
pub(super) type Positions = HashMap<String, Position>;

/// A row of the table of subscribers: user, domain, and the password or the hashes MD5, SHA-256 and
/// SHA-512-256.
pub(super) type SubscriberRow = (Vec<u8>, Vec<u8>, [Option<Vec<u8>>; 4]);

/// How long a folded entry is kept for nodes that have not read it yet.
pub(super) const KEEP: Duration = Duration::from_secs(10);

/// The error for a node whose name another run uses.
pub(super) fn taken(name: &str) -> StoreError {
    let cause = "another server uses this name: give each server a [node] with a unique name";
    StoreError { is_final: true, ..StoreError::new(format!("node {name:?}"), cause) }
}

/// Parses a secret from the database, which must be the same for all nodes.
#[cfg(feature = "databases")]
pub(super) fn read_secret(name: &str, value: &[u8]) -> Result<[u8; 16], StoreError> {
    let cause = || {
        let len = value.len();
        format!("{name:?} has {len} bytes instead of 16: delete it, stop all nodes and start them again")
    };
    value.try_into().map_err(|_| StoreError::new("a secret in the store", cause()))
}

/// The number of the last trimmed entry of a node's journal. Any missing entry after it was lost.
pub(super) fn trimmed(database: &mut impl Database, name: &str) -> Result<i64, StoreError> {
    let rows = database.nodes()?;
    Ok(rows.iter().find(|row| row.name == name).map_or(0, |row| row.trimmed))
}

/// Maximum number of journal entries per query.
#[cfg(feature = "databases")]
pub(super) const ENTRIES: usize = 64;
/// Maximum number of rows of bindings per query.
#[cfg(feature = "databases")]
pub(super) const ROWS: usize = 10_000;
