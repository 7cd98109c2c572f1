//! Plain datagrams of many peers with few system calls: many are received with one ([`Receiving`]), many are sent with one,
//! and those that go to the same peer one after the other and are equally long go as one train, which the kernel cuts
//! (UDP GSO, [`Sending`]).
//!
//! Trains that arrive are taken as such if the socket says so ([`take_trains`]).
//!
//! Both work on a socket that is somebody else's and doesn't block; when it is ready is no business of theirs.

mod receiving;
mod sending;
mod sys;

pub use receiving::{Receiving, TRAIN, take_trains};
pub use sending::Sending;
pub use sys::dropped;

/// Datagrams with one call.
pub const BATCH: usize = 64;
