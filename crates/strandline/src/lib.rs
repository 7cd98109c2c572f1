//! SCTP sockets for tokio.
