//! Several processes that serve the same addresses: a supervisor and its workers.
//!
//! Each worker is a server with a thread of its own for everything, as if it were alone. The kernel gives each connection, and all
//! datagrams of one peer, to one of them ([`group`]). The supervisor opens the sockets, reads the configuration for all
//! ([`accepted`]), keeps the bindings of all ([`exchange`]), starts workers that have died, and answers who looks after the server. What a worker has for a connection of another one goes there
//! without it.

mod accepted;
mod asking;
mod descriptors;
mod exchange;
mod frame;
mod group;
mod keep;
mod link;
mod merged;
mod supervisor;
mod worker;

#[cfg(any(test, feature = "fuzzing"))]
pub(super) use frame::fuzzing::run as frames;
pub(super) use supervisor::{LOST, supervise};
pub(super) use worker::Worker;
