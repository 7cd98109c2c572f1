//! Plain UDP datagrams of many peers with few system calls. One call receives many datagrams ([`Receiving`])
//! and one call sends many ([`Sending`]). Consecutive datagrams of equal length to the same peer are sent as
//! one batch that the kernel segments (UDP GSO).
//!
//! Batches that arrive coalesced (UDP GRO) are received as such if the socket is set up for it
//! ([`take_trains`]).
//!
//! Both work on a non-blocking socket that the caller owns. Waiting for readiness is left to the caller.

mod ports;
mod receiving;
mod sending;
mod sys;

pub use ports::choose_port_on_connect;
pub use receiving::{Receiving, TRAIN, Train, note_times, take_trains};
pub use sending::{Sending, send_train};
pub use sys::dropped;

/// Maximum number of datagrams in one call.
pub const BATCH: usize = 64;
