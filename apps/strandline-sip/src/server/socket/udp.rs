//! UDP: many datagrams with each system call.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;

use strandline_udp::{BATCH, Receiving, Sending, TRAIN, take_trains};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::codec::{Datagram, binding_answer};
use crate::transaction::{Flow, Outbox, Protocol};

use super::gate::filter;

/// What the kernel is asked to keep for us while we are busy, bytes.
const RECEIVE_BUFFER: usize = 8 << 20;

/// A UDP socket. Nobody waits for room in it: each datagram that its receiver takes makes some, and to hear of that would wake
/// the server once more for each answer.
pub(in crate::server) struct Udp {
    socket: AsyncFd<UdpSocket>,
    sending: RefCell<Sending>,
    receiving: RefCell<Receiving>,
}

impl Udp {
    pub(in crate::server) fn bind(address: SocketAddr) -> io::Result<Rc<Self>> {
        Self::of(UdpSocket::bind(address)?)
    }

    /// With a socket that was opened before, and perhaps used.
    pub(in crate::server) fn of(socket: UdpSocket) -> io::Result<Rc<Self>> {
        socket.set_nonblocking(true)?;
        let reference = socket2::SockRef::from(&socket);
        // Another process may have had it before, in an overload; mostly there is none.
        let _ = reference.detach_filter();
        // More than the system allows is cut to that.
        reference.set_recv_buffer_size(RECEIVE_BUFFER)?;
        reference.set_send_buffer_size(RECEIVE_BUFFER)?;
        #[allow(
            deprecated,
            reason = "what is registered owns its descriptor, which is what `register` has to be promised"
        )]
        let socket = AsyncFd::with_interest(socket, Interest::READABLE)?;
        if let Err(error) = take_trains(&socket, true) {
            tracing::debug!(%error, "datagrams come one by one");
        }
        let receiving = RefCell::new(Receiving::new(TRAIN));
        Ok(Rc::new(Self { socket, sending: RefCell::default(), receiving }))
    }

    pub(in crate::server) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get_ref().local_addr()
    }

    /// Waits until there are datagrams.
    pub(in crate::server) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await.map(|_| ())
    }

    /// Takes as many as go with one call, and returns how many datagrams those were and whether there may be more. What comes
    /// is there until `take` returns, which says of a question with STUN whether it may be answered.
    pub(in crate::server) fn take(
        &self,
        mut take: impl FnMut(Datagram, Flow, &[u8]) -> bool,
    ) -> (usize, bool) {
        let mut receiving = self.receiving.borrow_mut();
        let received = self.socket.try_io(Interest::READABLE, |socket| receiving.receive(socket));
        let more = match received {
            Ok(BATCH) => true,
            Ok(_) => {
                // No more are there, and more will be told: what the next attempt would find out with a system call can be
                // said now.
                let none = |_: &UdpSocket| Err::<(), _>(ErrorKind::WouldBlock.into());
                let _ = self.socket.try_io(Interest::READABLE, none);
                false
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (0, false),
            // What came back from a peer that is gone; there is nothing to do about it.
            Err(error) => {
                tracing::debug!(%error, "receiving datagrams");
                return (0, false);
            }
        };
        let (mut count, mut answers) = (0, Vec::new());
        for (peer, bytes) in receiving.datagrams() {
            count += 1;
            let Some(peer) = peer else { continue };
            let kind = Datagram::of(bytes);
            if take(kind, Flow::to(Protocol::Udp, peer), bytes) && kind == Datagram::Stun {
                answers.extend(binding_answer(bytes, peer).map(|answer| (peer, answer)));
            }
        }
        if !answers.is_empty() {
            let datagrams = answers.iter().map(|(peer, bytes)| (Some(*peer), bytes.as_slice()));
            self.sending.borrow_mut().send(self.socket.get_ref(), datagrams);
        }
        (count, more)
    }

    /// Lets this share through of requests that begin something: all with 1. The others take no time any more.
    pub(in crate::server) fn let_through(&self, share: f64) -> io::Result<()> {
        let socket = socket2::SockRef::from(&self.socket);
        if share >= 1.0 {
            socket.detach_filter()?;
            return take_trains(&self.socket, true);
        }
        // A filter is asked once for each train: it would drop all of it, or nothing.
        take_trains(&self.socket, false)?;
        socket.attach_filter(&filter(share))
    }

    /// Sends all that goes over UDP. What the kernel has no room for is lost, as datagrams may be.
    pub(in crate::server) fn send(&self, out: &Outbox) {
        let items = out.iter().filter(|(item, _)| item.flow.protocol == Protocol::Udp);
        let datagrams = items.map(|(item, bytes)| (Some(item.flow.peer), bytes));
        self.sending.borrow_mut().send(self.socket.get_ref(), datagrams);
    }
}
