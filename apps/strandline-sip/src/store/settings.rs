//! What a store that several nodes share needs to know.

use std::time::Duration;

/// What kind of server keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// MariaDB or MySQL.
    MySql,
    /// PostgreSQL.
    PostgreSql,
    /// Redis or Valkey.
    Redis,
}

impl Kind {
    /// Its name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MySql => "mysql",
            Self::PostgreSql => "postgresql",
            Self::Redis => "redis",
        }
    }
}

/// This node among those that share a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSettings {
    /// Its name: no other has it, and it stays the same.
    pub name: String,
    /// The server whose process it is: the same name, unless that has several.
    pub server: String,
    /// Where other nodes reach it, as `protocol:address:port`; empty if it is alone.
    pub address: String,
    /// How often to look for what the others have changed.
    pub poll: Duration,
    /// How long a node may say nothing before the others take it for dead.
    pub lease: Duration,
}

/// A store that several nodes can share.
#[derive(Clone)]
pub struct Shared {
    /// What it is.
    pub kind: Kind,
    /// Where it is, as its own clients write it.
    pub url: String,
    /// The password, if it isn't in the URL.
    pub password: Option<String>,
    /// How long connecting, or one step, may take.
    pub timeout: Duration,
    /// Replicas that must have a commit before it counts (Redis only).
    pub replicas_min: u32,
    /// This node.
    pub node: NodeSettings,
}

impl core::fmt::Debug for Shared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The URL may hold a password.
        f.debug_struct("Shared").field("kind", &self.kind).field("node", &self.node).finish_non_exhaustive()
    }
}
