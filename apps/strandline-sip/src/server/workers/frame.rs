//! The messages between a supervisor and its workers: a head in JSON, and a body of bytes.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Messages to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ToWorker {
    /// The first message. The body is the initial configuration.
    Hello(Hello),
    /// A reloaded configuration in the body. It must be answered, unless it directly follows the first
    /// message.
    Reload { id: u64 },
    /// Part of the state of a worker's users, in the form of a journal; sent at the start.
    State { worker: u8 },
    /// The end of the initial messages.
    Loaded,
    /// Changes made by a worker, as a journal in the body. They must be confirmed.
    Changes { number: u64, worker: u8 },
    /// A commit is durable or has failed.
    Committed { number: u64, error: Option<String> },
    /// The workers that are alive.
    Alive { workers: u64 },
    /// An administrative request.
    Request { id: u64, method: String, target: String },
    /// The worker should end.
    End,
}

/// The parameters of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The number of workers.
    pub(super) count: u8,
    /// The start of this run, later than that of any earlier run of this worker.
    pub(super) begun_unix_secs: u64,
    /// The keys of flow tokens, of nonces, and of the hashes on which all workers must agree.
    pub(super) tokens: [u8; 16],
    pub(super) nonces: [u8; 16],
    pub(super) hashes: [u8; 16],
    /// The serving workers as a bit set.
    pub(super) alive: u64,
    /// True if the supervisor stores the worker's bindings and passes on those of the others.
    pub(super) relays: bool,
    /// The SCTP port, and the UDP port that carries it, if known.
    pub(super) sctp: Option<(u16, u16)>,
    /// Descriptions of the listening sockets, in the order of the descriptors.
    pub(super) sockets: Vec<Handed>,
    /// True if the configuration was reloaded since the start.
    pub(super) reloaded: bool,
    /// True if the server is draining.
    pub(super) draining: bool,
}

/// The description of a socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Handed {
    /// The name of its protocol in the configuration.
    pub(super) protocol: String,
    /// The configured address, whose port may be 0.
    pub(super) address: SocketAddr,
    /// The actual address.
    pub(super) bound: SocketAddr,
}

/// Messages to the supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ToSupervisor {
    /// The worker serves.
    Ready { users: usize, sctp: Option<(u16, u16)> },
    /// Changes to persist, as a journal in the body.
    Commit { number: u64 },
    /// Changes of other workers up to this number have been applied.
    Merged { number: u64 },
    /// The response to an administrative request.
    Answer { id: u64, status: u16 },
    /// The reloaded configuration was applied, or why not.
    Reloaded { id: u64, error: Option<String> },
    /// All transactions of the worker have ended.
    Drained,
}

#[cfg(any(test, feature = "fuzzing"))]
pub(in crate::server) mod fuzzing;
