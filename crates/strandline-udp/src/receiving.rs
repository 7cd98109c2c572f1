//! Receives many datagrams with one call.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::BATCH;
use crate::sys::{Arrival, receive, set_option};

/// Maximum length of a coalesced batch of datagrams in bytes.
pub const TRAIN: usize = 65_535;

/// Buffers for the datagrams of one call.
#[derive(Debug)]
pub struct Receiving {
    room: Vec<u8>,
    /// Maximum expected length of a datagram in bytes; longer ones are truncated.
    datagram: usize,
    came: Vec<Arrival>,
}

/// Sets whether the socket receives coalesced batches (from GSO of a sender on this host, or GRO of the
/// network) as such, which takes less time than one datagram at a time. The receiver then needs buffers of
/// [`TRAIN`] bytes.
///
/// # Errors
/// If the kernel doesn't support UDP GRO.
pub fn take_trains(socket: &impl AsRawFd, trains: bool) -> io::Result<()> {
    set_option(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_GRO, trains.into())
}

/// Sets whether the kernel notes when it receives a datagram of the socket; see [`Train::at`].
///
/// # Errors
/// If the system doesn't support it.
pub fn note_times(socket: &impl AsRawFd, times: bool) -> io::Result<()> {
    set_option(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, times.into())
}

impl Receiving {
    /// Creates buffers for datagrams of up to `datagram_bytes_max` bytes; longer ones are truncated. They
    /// take [`BATCH`] times as much memory once they are written to.
    #[must_use]
    pub fn new(datagram_bytes_max: usize) -> Self {
        let datagram = datagram_bytes_max.max(1);
        Self { room: vec![0; BATCH * datagram], datagram, came: Vec::with_capacity(BATCH) }
    }

    /// Receives as many datagrams as one call allows, and returns their number. Fewer than [`BATCH`] means
    /// that no more were there. A coalesced batch counts as one.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there are none; or the socket's pending error, such as
    /// the ICMP error of a peer that is gone.
    pub fn receive(&mut self, socket: &impl AsRawFd) -> io::Result<usize> {
        let Self { room, datagram, came } = self;
        came.clear();
        receive(socket.as_raw_fd(), room.chunks_mut(*datagram), |arrival| came.push(arrival))
    }

    /// Returns the datagrams of the last call, each with its sender. The datagrams of a coalesced batch are
    /// returned one by one; empty datagrams are left out.
    pub fn datagrams(&self) -> impl Iterator<Item = (Option<SocketAddr>, &[u8])> {
        self.trains().flat_map(|train| train.datagrams().map(move |datagram| (train.peer, datagram)))
    }

    /// Returns the datagrams of the last call as the kernel gave them: each coalesced batch as one train, any
    /// other datagram as a train of its own.
    pub fn trains(&self) -> impl Iterator<Item = Train<'_>> {
        let places = self.room.chunks(self.datagram).zip(&self.came);
        places.map(|(place, arrival)| Train {
            peer: arrival.peer,
            at: arrival.at,
            bytes: place.get(..arrival.len).unwrap_or(&[]),
            segment: arrival.segment,
        })
    }
}

/// Datagrams from one peer that were received as one batch.
#[derive(Debug, Clone, Copy)]
pub struct Train<'a> {
    /// The sender; `None` if its address is neither IPv4 nor IPv6.
    pub peer: Option<SocketAddr>,
    /// The time since 1970-01-01 at which the kernel received it; `None` unless the socket is set up for that
    /// ([`note_times`]).
    pub at: Option<Duration>,
    bytes: &'a [u8],
    /// The length of each datagram in bytes; the last may be shorter.
    segment: usize,
}

impl<'a> Train<'a> {
    /// Returns the datagrams; an empty one is left out.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks(self.segment)
    }
}
