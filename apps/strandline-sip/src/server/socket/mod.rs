//! The sockets, and what is to be sent on them. They know nothing of the service.

mod connections;
mod sctp;
mod udp;

pub(super) use connections::{Connection, Connections};
pub(super) use sctp::Sctp;
pub(super) use udp::{Turn, Udp};
