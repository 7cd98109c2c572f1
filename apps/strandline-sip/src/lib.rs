//! SIP (RFC 3261) for a city: so far its codec.
//!
//! - [`codec`]: messages between bytes and types, stream framing, edits. No I/O, no clock, no allocation for each
//!   message.
#![forbid(unsafe_code)]

pub mod codec;
