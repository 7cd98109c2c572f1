//! Input: a task for each socket, and for each connection with TLS or WebSocket.

pub(super) mod accept;
mod fresh;
mod gathering;
pub(super) mod mail;
mod reader;
pub(super) mod sctp;
pub(super) mod set;
mod taker;
pub(super) mod tcp;
pub(super) mod udp;
pub(super) mod work;
mod ws;

#[cfg(any(test, feature = "fuzzing"))]
pub(super) use ws::fuzzing::run as handshake;
