//! Receiving many datagrams with one call.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg};

use crate::BATCH;

/// Room for the datagrams of one call.
#[derive(Debug)]
pub struct Receiving {
    room: Vec<u8>,
    /// Bytes of the longest datagram that is expected; longer ones are cut.
    datagram: usize,
    headers: MultiHeaders<SockaddrStorage>,
    /// Who sent each, and its length.
    came: Vec<(Option<SocketAddr>, usize)>,
}

impl Receiving {
    /// For datagrams up to so many bytes; longer ones are cut. It takes [`BATCH`] times as much memory, once it is written to.
    #[must_use]
    pub fn new(datagram_bytes_max: usize) -> Self {
        let datagram = datagram_bytes_max.max(1);
        Self {
            room: vec![0; BATCH * datagram],
            datagram,
            headers: MultiHeaders::preallocate(BATCH, None),
            came: Vec::with_capacity(BATCH),
        }
    }

    /// Receives as many as go with one call, and returns how many: fewer than [`BATCH`] if no more were there.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there are none; or what came back from a peer that is gone.
    pub fn receive(&mut self, socket: &impl AsRawFd) -> io::Result<usize> {
        self.came.clear();
        let mut places: Vec<[IoSliceMut<'_>; 1]> =
            self.room.chunks_mut(self.datagram).map(|place| [IoSliceMut::new(place)]).collect();
        let flags = MsgFlags::MSG_DONTWAIT;
        let received = recvmmsg(socket.as_raw_fd(), &mut self.headers, places.iter_mut(), flags, None)?;
        self.came.extend(received.map(|one| (one.address.as_ref().and_then(address), one.bytes)));
        Ok(self.came.len())
    }

    /// What the last call received: who sent it, and the datagram.
    pub fn datagrams(&self) -> impl Iterator<Item = (Option<SocketAddr>, &[u8])> {
        let places = self.room.chunks(self.datagram);
        places.zip(&self.came).map(|(place, (peer, len))| (*peer, place.get(..*len).unwrap_or(&[])))
    }
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some(SocketAddr::V4((*v4).into()));
    }
    storage.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into()))
}
