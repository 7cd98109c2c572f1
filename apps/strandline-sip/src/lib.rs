//! A SIP server (RFC 3261) for a city: registrar and proxy over UDP, TCP, TLS, SCTP and WebSocket.
//!
//! - [`codec`]: parsing, stream framing, editing and writing of messages. No I/O, no clock, no allocation for
//!   each message.
//! - `resolution`: from a domain to its servers. No I/O, no clock.
//! - [`transaction`]: the four state machines, matching and timers. No I/O, no clock.
//!
//! Without the feature `server`, which is on by default, the crate contains only the codec and the
//! transactions.
#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "server"), allow(dead_code, unused_imports, reason = "the server uses it"))]

#[cfg(feature = "server")]
pub mod auth;
#[cfg(feature = "server")]
pub mod bindings;
pub mod codec;
#[cfg(all(feature = "server", any(test, feature = "fuzzing")))]
#[doc(hidden)]
#[allow(clippy::panic, reason = "a fuzz target stops at what breaks a promise")]
pub mod fuzzing;
#[cfg(feature = "server")]
pub mod registrar;
#[cfg(feature = "server")]
pub mod resolution;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod service;
#[cfg(feature = "server")]
pub mod store;
pub mod transaction;
