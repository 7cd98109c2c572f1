//! UDP: many datagrams with each system call.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use strandline_udp::{BATCH, Receiving, Sending};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::codec::Datagram;
use crate::transaction::{Flow, Outbox, Protocol};

use super::gate::filter;

/// The largest datagram there is.
const DATAGRAM: usize = 65_536;
/// Messages that wait share blocks of this size.
const BLOCK: usize = 64 << 10;
/// What the kernel is asked to keep for us while we are busy, bytes.
const RECEIVE_BUFFER: usize = 8 << 20;

/// A UDP socket.
pub(in crate::server) struct Udp {
    socket: UdpSocket,
    sending: RefCell<Sending>,
    receiving: RefCell<(Receiving, Kept)>,
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
        let receiving = RefCell::new((Receiving::new(DATAGRAM), Kept::default()));
        Ok(Rc::new(Self { socket, sending: RefCell::default(), receiving }))
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
        let (receiving, kept) = &mut *self.receiving.borrow_mut();
        let received = self.socket.try_io(Interest::READABLE, || receiving.receive(&self.socket));
        let more = match received {
            Ok(BATCH) => true,
            Ok(_) => {
                // No more are there, and more will be told: what the next attempt would find out with a system call can be
                // said now.
                let _ = self.socket.try_io(Interest::READABLE, || Err::<(), _>(ErrorKind::WouldBlock.into()));
                false
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            // What came back from a peer that is gone; there is nothing to do about it.
            Err(error) => {
                tracing::debug!(%error, "receiving datagrams");
                return false;
            }
        };
        for (peer, bytes) in receiving.datagrams() {
            let Some(peer) = peer else { continue };
            if Datagram::of(bytes) == Datagram::Sip {
                take(Flow::to(Protocol::Udp, peer), bytes, kept);
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
        let items = out.iter().filter(|(item, _)| item.flow.protocol == Protocol::Udp);
        let datagrams = items.map(|(item, bytes)| (Some(item.flow.peer), bytes));
        self.sending.borrow_mut().send(&self.socket, datagrams);
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
