//! The sockets, and what is to be sent on them. They know nothing of the service.

mod aliases;
mod connections;
mod gate;
mod sctp;
mod tls;
mod udp;
mod websocket;

pub(super) use connections::{Connection, Connections, Room};
pub(super) use gate::{Came, Gate, mark, threshold};
pub(super) use sctp::{Carriers, Failed, Many, One, Opened, Sctp};
pub(super) use tls::TlsSides;
pub(super) use udp::Udp;
pub(super) use websocket::{Opened as OpenedFrame, WebSocket, frame};
