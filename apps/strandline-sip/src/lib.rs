//! SIP (RFC 3261) for a city: registrar and proxy on UDP, TCP and SCTP.
//!
//! - [`codec`]: messages between bytes and types, stream framing, edits. No I/O, no clock, no allocation for each
//!   message.
//! - [`transaction`]: the four state machines, matching and timers. No I/O, no clock.
#![forbid(unsafe_code)]

pub mod auth;
pub mod codec;
pub mod location;
pub mod registrar;
pub mod server;
pub mod service;
pub mod store;
pub mod transaction;
