//! The sockets and their output. They don't depend on the service.

mod account;
mod activity;
mod aliases;
mod check_schedule;
mod connection_age;
mod connection_limits;
mod connections;
mod gate;
mod handshake_memory;
mod mail;
mod sctp;
mod tls;
mod trains;
mod udp;
mod unidentified;
mod watch;
mod websocket;

/// Connection numbers for each second between two starts of a server, as a power of two.
const PER_SEC_LOG2: u32 = 28;

/// Number of messages that count as the first ones of a connection or an association: a REGISTER, and its
/// repetition with credentials.
pub(super) const FIRST: u8 = 2;

pub(super) use activity::Begun;
pub(super) use connection_age::AGE_MIN;
pub use connection_limits::ConnectionLimits;
pub(super) use connections::{Connection, Connections, Room};
pub(super) use gate::{Came, Gate, mark, threshold};
#[cfg(any(test, feature = "fuzzing"))]
pub(super) use mail::fuzzing::run as letter;
pub(super) use mail::{Letter, Mail};
pub(super) use sctp::{Carriers, Failed, Many, Met, One, Opened, REFUSED, Sctp};
pub(super) use tls::TlsSides;
pub(super) use udp::Udp;
pub(super) use websocket::{Opened as OpenedFrame, WebSocket, frame};
