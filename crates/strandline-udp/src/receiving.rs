//! Receiving many datagrams with one call.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGroSegment;

use crate::BATCH;
use crate::sys::{Arrival, receive};

/// Bytes that a train may have.
pub const TRAIN: usize = 65_535;

/// Room for the datagrams of one call.
#[derive(Debug)]
pub struct Receiving {
    room: Vec<u8>,
    /// Bytes of the longest datagram that is expected; longer ones are cut.
    datagram: usize,
    came: Vec<Arrival>,
}

/// From now on what arrives in trains (GSO of a sender on this host, GRO of the network) is handed over as such, which takes
/// less time than one by one; or not. Whoever receives needs room for [`TRAIN`] bytes.
///
/// # Errors
/// If the kernel knows no trains.
pub fn take_trains(socket: &impl AsFd, trains: bool) -> io::Result<()> {
    Ok(setsockopt(socket, UdpGroSegment, &trains)?)
}

impl Receiving {
    /// For datagrams up to so many bytes; longer ones are cut. It takes [`BATCH`] times as much memory, once it is written to.
    #[must_use]
    pub fn new(datagram_bytes_max: usize) -> Self {
        let datagram = datagram_bytes_max.max(1);
        Self { room: vec![0; BATCH * datagram], datagram, came: Vec::with_capacity(BATCH) }
    }

    /// Receives as many as go with one call, and returns how many: fewer than [`BATCH`] if no more were there. A train counts
    /// as one.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there are none; or what came back from a peer that is gone.
    pub fn receive(&mut self, socket: &impl AsRawFd) -> io::Result<usize> {
        let Self { room, datagram, came } = self;
        came.clear();
        receive(socket.as_raw_fd(), room.chunks_mut(*datagram), |arrival| came.push(arrival))
    }

    /// What the last call received: who sent it, and the datagram. Those of a train come one by one; empty ones don't.
    pub fn datagrams(&self) -> impl Iterator<Item = (Option<SocketAddr>, &[u8])> {
        let places = self.room.chunks(self.datagram).zip(&self.came);
        places.flat_map(|(place, arrival)| {
            let bytes = place.get(..arrival.len).unwrap_or(&[]);
            bytes.chunks(arrival.segment).map(|datagram| (arrival.peer, datagram))
        })
    }
}
