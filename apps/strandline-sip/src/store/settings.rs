//! Settings of a store that several nodes share.

use std::time::Duration;

use strandline_tls::Verify;

/// The kind of database.
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
    /// The name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MySql => "mysql",
            Self::PostgreSql => "postgresql",
            Self::Redis => "redis",
        }
    }
}

/// This node, as one of those that share a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSettings {
    /// The unique and permanent name of the node.
    pub name: String,
    /// The name of the server to which the process belongs: the node's name, unless the server has several
    /// processes.
    pub server: String,
    /// The address for other nodes, as `protocol:address:port`; empty if there are none.
    pub address: String,
    /// The zone of the link to other nodes if their addresses are link-local; else 0.
    pub zone: u32,
    /// How often to look for changes of other nodes.
    pub poll: Duration,
    /// How long a node may be silent before the others consider it dead.
    pub lease: Duration,
}

/// A store that several nodes can share.
#[derive(Clone)]
pub struct Shared {
    /// The kind of database.
    pub kind: Kind,
    /// The URL, in the format of the database's own clients.
    pub url: String,
    /// The password, if it is not in the URL.
    pub password: Option<String>,
    /// With TLS: what the server's certificate must prove.
    pub tls: Option<Verify>,
    /// Timeout for connecting and for each operation.
    pub timeout: Duration,
    /// Number of replicas that must have a commit before it counts (Redis only).
    pub replicas_min: u32,
    /// This node.
    pub node: NodeSettings,
}

impl core::fmt::Debug for Shared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The URL may contain a password.
        f.debug_struct("Shared").field("kind", &self.kind).field("node", &self.node).finish_non_exhaustive()
    }
}
