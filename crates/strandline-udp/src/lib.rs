//! Plain datagrams of many peers with few system calls: many are received with one ([`Receiving`]), many are sent with one,
//! and those that go to the same peer one after the other and are equally long go as one train, which the kernel cuts
//! (UDP GSO, [`Sending`]).
//!
//! Both work on a socket that is somebody else's and doesn't block; when it is ready is no business of theirs.
#![forbid(unsafe_code)]

mod receiving;
mod sending;

pub use receiving::Receiving;
pub use sending::Sending;

/// Datagrams with one call.
pub const BATCH: usize = 64;
