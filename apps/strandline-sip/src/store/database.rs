//! What a shared store asks of a database, whatever its kind.
//!
//! There are nodes (name, address, incarnation, a count that grows while it lives, and up to where its journal was trimmed),
//! and for each of them bindings (a row for each user, with what the user has at that node) and a journal (numbered without
//! gaps; a row for each commit). Each row of bindings and journal is written by its node only.

use std::collections::HashMap;

use super::folding::User;
use super::{Shared, StoreError};

/// A node as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeRow {
    pub(super) name: String,
    pub(super) address: String,
    /// Changes while the node lives; negative if it has left.
    pub(super) beat: i64,
    /// How long ago it changed, by the database's clock.
    pub(super) age_ms: i64,
    /// Entries of its journal up to this one are gone.
    pub(super) trimmed: i64,
}

/// An entry of a journal: its number, and the changes.
pub(super) type Entry = (i64, Vec<u8>);

/// Who a node is while it runs: another run of the same node has another number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) name: String,
    pub(super) incarnation: i64,
}

/// A connection to a database. After an error it is closed, and another one made.
pub(super) trait Database: Sized + Send + 'static {
    /// Connects, and makes what isn't there yet.
    fn connect(settings: &Shared) -> Result<Self, StoreError>;

    /// All nodes that have ever been.
    fn nodes(&mut self) -> Result<Vec<NodeRow>, StoreError>;

    /// From now on this run is the node, and no other.
    fn enter(&mut self, run: &Run, address: &str) -> Result<(), StoreError>;

    /// Says that the node lives, or that it has `left`. False if this run isn't the node any more.
    fn beat(&mut self, run: &Run, left: bool) -> Result<bool, StoreError>;

    /// Adds an entry to the journal. When this returns it is durable. False if this run isn't the node any more.
    fn append(&mut self, run: &Run, number: i64, changes: &[u8]) -> Result<bool, StoreError>;

    /// The number of the last entry of a node's journal, or what it was trimmed to.
    fn last(&mut self, name: &str) -> Result<i64, StoreError>;

    /// Writes into the bindings what users have; nothing removes the row. False if this run isn't the node any more.
    fn fold(&mut self, run: &Run, users: &[User]) -> Result<bool, StoreError>;

    /// Removes entries up to this one from the node's journal.
    fn trim(&mut self, name: &str, to: i64) -> Result<(), StoreError>;

    /// Shows all users of a node and what they have.
    fn bindings(&mut self, name: &str, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError>;

    /// Entries of a node's journal after this one, in order: some of them if they are many.
    fn journal(&mut self, name: &str, after: i64) -> Result<Vec<Entry>, StoreError>;

    /// A secret that stays the same: `fresh` the first time.
    fn secret(&mut self, name: &str, fresh: [u8; 16]) -> Result<[u8; 16], StoreError>;
}

/// Where each node's journal was read to.
pub(super) type Positions = HashMap<String, i64>;

/// A row of the table of subscribers: user, domain, and what the user proves to know: password, or the hashes MD5, SHA-256
/// and SHA-512-256.
pub(super) type SubscriberRow = (Vec<u8>, Vec<u8>, [Option<Vec<u8>>; 4]);

/// Another run is the node.
pub(super) fn taken(name: &str) -> StoreError {
    let cause = "another server runs under this name: each needs a [node] with a name of its own";
    StoreError { is_final: true, ..StoreError::new(format!("node {name:?}"), cause) }
}

/// A secret as the database has it, which all nodes must have.
pub(super) fn read_secret(name: &str, value: &[u8]) -> Result<[u8; 16], StoreError> {
    let cause = || {
        let len = value.len();
        format!(
            "{name:?} has {len} bytes instead of 16: remove it there, stop all nodes and start them again"
        )
    };
    value.try_into().map_err(|_| StoreError::new("a secret in the store", cause()))
}

/// Up to where a node's journal is gone by now. An entry that is missing after that was lost.
pub(super) fn trimmed(database: &mut impl Database, name: &str) -> Result<i64, StoreError> {
    let rows = database.nodes()?;
    Ok(rows.iter().find(|row| row.name == name).map_or(0, |row| row.trimmed))
}

/// Entries of a journal that are read at once.
pub(super) const ENTRIES: usize = 64;
/// Rows of bindings that are read at once.
pub(super) const ROWS: usize = 10_000;
