//! Batches of datagrams: `sendmmsg` and `recvmmsg`.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};

/// Maximum number of datagrams of one system call.
pub const BATCH: usize = 32;

/// Sends to one address, up to [`BATCH`] datagrams with one call.
#[derive(Debug)]
pub struct Sender {
    headers: MultiHeaders<SockaddrStorage>,
    to: [Option<SockaddrStorage>; BATCH],
}

impl Sender {
    /// Creates a sender to an address; `None` if the socket is connected.
    pub fn new(to: Option<SocketAddr>) -> Self {
        Self { headers: MultiHeaders::preallocate(BATCH, None), to: [to.map(SockaddrStorage::from); BATCH] }
    }

    /// Sends all datagrams; those that the kernel refuses count as lost, as on any network.
    pub fn send<T: AsRef<[u8]>>(&mut self, socket: &impl AsRawFd, datagrams: &[T]) -> anyhow::Result<()> {
        for chunk in datagrams.chunks(BATCH) {
            let empty = [IoSlice::new(&[])];
            let mut slices = [empty; BATCH];
            for (slice, datagram) in slices.iter_mut().zip(chunk) {
                *slice = [IoSlice::new(datagram.as_ref())];
            }
            let mut sent = 0;
            while sent < chunk.len() {
                let rest = &slices[sent..chunk.len()];
                let flags = MsgFlags::empty();
                match sendmmsg(socket.as_raw_fd(), &mut self.headers, rest, self.to, [], flags) {
                    Ok(results) => sent += results.count().max(1),
                    Err(Errno::EAGAIN | Errno::EINTR) => std::thread::yield_now(),
                    Err(Errno::ECONNREFUSED | Errno::ENOBUFS) => sent += 1,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

/// Receives up to [`BATCH`] datagrams with one call.
#[derive(Debug)]
pub struct Receiver {
    headers: MultiHeaders<SockaddrStorage>,
    buffers: Vec<Vec<u8>>,
    lengths: [usize; BATCH],
    source: Option<SocketAddr>,
}

impl Receiver {
    /// Creates buffers for datagrams (or coalesced batches of them) of at most `datagram_bytes_max` bytes.
    pub fn new(datagram_bytes_max: usize) -> Self {
        Self {
            headers: MultiHeaders::preallocate(BATCH, None),
            buffers: vec![vec![0; datagram_bytes_max]; BATCH],
            lengths: [0; BATCH],
            source: None,
        }
    }

    /// Returns the received datagrams: none if there is nothing (without waiting), or nothing within the
    /// socket's time-out.
    pub fn receive(
        &mut self,
        socket: &impl AsRawFd,
        waits: bool,
    ) -> anyhow::Result<impl Iterator<Item = &[u8]>> {
        let mut buffers = self.buffers.iter_mut();
        let mut slices: [[IoSliceMut<'_>; 1]; BATCH] = std::array::from_fn(|_| {
            [IoSliceMut::new(buffers.next().map(Vec::as_mut_slice).unwrap_or_default())]
        });
        let flags = if waits { MsgFlags::MSG_WAITFORONE } else { MsgFlags::MSG_DONTWAIT };
        let mut count = 0;
        match recvmmsg(socket.as_raw_fd(), &mut self.headers, &mut slices, flags, None) {
            Ok(results) => {
                for (result, length) in results.zip(&mut self.lengths) {
                    *length = result.bytes;
                    count += 1;
                    self.source = self.source.or_else(|| address(&result.address?));
                }
            }
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => {}
            Err(error) => return Err(error.into()),
        }
        let filled = self.buffers.iter().zip(self.lengths).take(count);
        Ok(filled.map(|(buffer, length)| &buffer[..length.min(buffer.len())]))
    }

    /// Returns the source of the first datagram.
    pub fn source(&self) -> Option<SocketAddr> {
        self.source
    }
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|v4| SocketAddr::new(v4.ip().into(), v4.port()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|v6| SocketAddr::new(v6.ip().into(), v6.port())))
}
