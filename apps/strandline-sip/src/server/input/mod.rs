//! What comes in: a task for each socket and each connection.

pub(super) mod sctp;
pub(super) mod tcp;
pub(super) mod udp;
pub(super) mod work;
