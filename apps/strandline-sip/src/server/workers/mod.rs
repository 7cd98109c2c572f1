//! Several processes that serve the same addresses: a supervisor and its workers.
//!
//! Each worker is a complete single-threaded server. The kernel assigns each connection, and all datagrams of
//! one peer, to one worker ([`group`]). The supervisor opens the sockets, reads the configuration for all
//! workers ([`accepted`]), keeps their bindings ([`exchange`]), restarts workers that have died, and answers
//! administrative requests. Workers exchange messages for each other's connections directly.

mod accepted;
mod admin_requests;
mod descriptors;
mod exchange;
mod frame;
mod group;
mod link;
mod merged;
mod persistent_state;
mod supervisor;
mod worker;

#[cfg(any(test, feature = "fuzzing"))]
pub(super) use frame::fuzzing::run as frames;
pub(super) use supervisor::{LOST, supervise};
pub(super) use worker::Worker;
