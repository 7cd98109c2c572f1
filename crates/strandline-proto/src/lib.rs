//! The SCTP engine of RFC 9260 as a state machine: no I/O, no clock, no threads, no randomness of its own.
#![forbid(unsafe_code)]

pub mod config;
pub mod congestion;
pub mod error;
pub mod event;
pub mod time;
pub use strandline_wire::number;
pub mod timer;

pub(crate) mod inbound;
mod outbound;
mod path;
