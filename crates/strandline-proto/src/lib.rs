//! The SCTP engine of RFC 9260 as a state machine: no I/O, no clock, no threads, no randomness of its own.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod association;
pub mod authentication;
pub mod config;
pub mod congestion;
pub(crate) mod diagnostics;
pub mod dynamic_addresses;
pub mod endpoint;
pub mod error;
pub mod event;
pub mod memory;
pub mod reconfiguration;
pub mod reliability;
pub mod stats;
pub mod time;
pub use strandline_wire::number;
pub mod timer;
pub mod zone;

pub(crate) mod inbound;
mod outbound;
mod path;
mod path_index;
mod rate_limit;
mod receive_queue;
mod stream_numbers;
