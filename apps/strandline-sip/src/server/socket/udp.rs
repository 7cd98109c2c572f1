//! UDP: many datagrams with each system call.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::codec::Datagram;
use crate::transaction::{Flow, Outbox, Protocol};

use super::gate::filter;

/// Datagrams with one call.
const BATCH: usize = 64;
/// The largest datagram there is.
const DATAGRAM: usize = 65_536;
/// Messages that wait share blocks of this size.
const BLOCK: usize = 64 << 10;
/// What the kernel is asked to keep for us while we are busy, bytes.
const RECEIVE_BUFFER: usize = 8 << 20;

/// A UDP socket.
pub(in crate::server) struct Udp {
    socket: UdpSocket,
    sending: RefCell<MultiHeaders<SockaddrStorage>>,
    turn: RefCell<Turn>,
}

impl Udp {
    pub(in crate::server) fn bind(address: SocketAddr) -> io::Result<Rc<Self>> {
        let socket = std::net::UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        let reference = socket2::SockRef::from(&socket);
        // More than the system allows is cut to that.
        reference.set_recv_buffer_size(RECEIVE_BUFFER)?;
        reference.set_send_buffer_size(RECEIVE_BUFFER)?;
        let socket = UdpSocket::from_std(socket)?;
        let sending = RefCell::new(MultiHeaders::preallocate(BATCH, None));
        Ok(Rc::new(Self { socket, sending, turn: RefCell::new(Turn::new()) }))
    }

    pub(in crate::server) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Waits until there are datagrams.
    pub(in crate::server) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Takes as many as go with one call, and returns whether there may be more. What comes is there until `take` returns,
    /// unless it keeps it.
    pub(in crate::server) fn take(&self, mut take: impl FnMut(Flow, &[u8], &mut Kept)) -> bool {
        let mut turn = self.turn.borrow_mut();
        let turn = &mut *turn;
        turn.met.clear();
        let received = || receive(self.socket.as_raw_fd(), &mut turn.room, &mut turn.headers, &mut turn.met);
        let more = match self.socket.try_io(Interest::READABLE, received) {
            // Fewer than there was room for: no more are there.
            Ok(count) => count == BATCH,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            // What came back from a peer that is gone; there is nothing to do about it.
            Err(error) => {
                tracing::debug!(%error, "receiving datagrams");
                false
            }
        };
        for (place, (peer, len)) in turn.room.chunks(DATAGRAM).zip(&turn.met) {
            let Some(peer) = peer else { continue };
            let bytes = place.get(..*len).unwrap_or(&[]);
            if Datagram::of(bytes) == Datagram::Sip {
                take(Flow::to(Protocol::Udp, *peer), bytes, &mut turn.kept);
            }
        }
        more
    }

    /// Lets this share through of requests that begin something: all with 1. The others take no time any more.
    pub(in crate::server) fn let_through(&self, share: f64) -> io::Result<()> {
        let socket = socket2::SockRef::from(&self.socket);
        if share < 1.0 { socket.attach_filter(&filter(share)) } else { socket.detach_filter() }
    }

    /// Sends all that goes over UDP. What the kernel has no room for is lost, as datagrams may be.
    pub(in crate::server) fn send(&self, out: &Outbox) {
        let mut items = out.iter().filter(|(item, _)| item.flow.protocol == Protocol::Udp);
        loop {
            let batch: Vec<([IoSlice<'_>; 1], Option<SockaddrStorage>)> = items
                .by_ref()
                .take(BATCH)
                .map(|(item, bytes)| ([IoSlice::new(bytes)], Some(item.flow.peer.into())))
                .collect();
            if batch.is_empty() {
                return;
            }
            self.send_batch(&batch);
        }
    }

    fn send_batch(&self, batch: &[([IoSlice<'_>; 1], Option<SockaddrStorage>)]) {
        let mut done = 0;
        let mut headers = self.sending.borrow_mut();
        while let Some(rest) = batch.get(done..).filter(|rest| !rest.is_empty()) {
            let addresses: Vec<Option<SockaddrStorage>> = rest.iter().map(|(_, address)| *address).collect();
            let slices = rest.iter().map(|(slice, _)| slice);
            let sent = sendmmsg(
                self.socket.as_raw_fd(),
                &mut headers,
                slices,
                &addresses,
                [],
                MsgFlags::MSG_DONTWAIT,
            );
            match sent.map(Iterator::count) {
                Ok(count @ 1..) => done += count,
                // The first one can't be sent: the others may be.
                Ok(0) | Err(_) => done += 1,
            }
        }
    }
}

/// Datagrams that came together.
struct Turn {
    room: Vec<u8>,
    headers: MultiHeaders<SockaddrStorage>,
    /// Who sent each, and its length.
    met: Vec<(Option<SocketAddr>, usize)>,
    kept: Kept,
}

impl Turn {
    fn new() -> Self {
        let headers = MultiHeaders::preallocate(BATCH, None);
        let (room, met) = (vec![0; BATCH * DATAGRAM], Vec::with_capacity(BATCH));
        Self { room, headers, met, kept: Kept::default() }
    }
}

/// Copies of messages, many to a block: a block goes when all of its messages are gone.
#[derive(Debug, Default)]
pub(in crate::server) struct Kept(BytesMut);

impl Kept {
    pub(in crate::server) fn keep(&mut self, bytes: &[u8]) -> Bytes {
        if self.0.capacity() < bytes.len() {
            self.0 = BytesMut::with_capacity(BLOCK.max(bytes.len()));
        }
        self.0.extend_from_slice(bytes);
        self.0.split().freeze()
    }
}

/// Receives up to a batch into `places`, and notes who sent what: sender and length.
fn receive(
    socket: RawFd,
    places: &mut [u8],
    headers: &mut MultiHeaders<SockaddrStorage>,
    met: &mut Vec<(Option<SocketAddr>, usize)>,
) -> io::Result<usize> {
    let mut places: Vec<[IoSliceMut<'_>; 1]> =
        places.chunks_mut(DATAGRAM).take(BATCH).map(|place| [IoSliceMut::new(place)]).collect();
    let received = recvmmsg(socket, headers, places.iter_mut(), MsgFlags::MSG_DONTWAIT, None)?;
    let before = met.len();
    met.extend(received.map(|message| (message.address.as_ref().and_then(address), message.bytes)));
    Ok(met.len() - before)
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some(SocketAddr::V4((*v4).into()));
    }
    storage.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into()))
}
