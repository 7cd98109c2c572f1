//! Input: a task for each socket, and for each connection with TLS or WebSocket.

pub(super) mod accept;
pub(super) mod epoll_set;
mod framer;
mod gathering;
pub(super) mod mail;
mod new_connections;
mod reader;
pub(super) mod sctp;
pub(super) mod tcp;
pub(super) mod udp;
pub(super) mod work;
mod ws;

#[cfg(any(test, feature = "fuzzing"))]
pub(super) use ws::fuzzing::run as handshake;
