//! UDP: many datagrams with each system call.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;

use strandline_udp::{BATCH, Receiving, Sending, TRAIN, dropped, take_trains};
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
    socket: UdpSocket,
    /// The socket once more, while it is waited for input.
    watch: RefCell<Option<Rc<AsyncFd<UdpSocket>>>>,
    sending: RefCell<Sending>,
    receiving: RefCell<Receiving>,
    gate: Cell<Closed>,
}

/// What the kernel has stopped.
#[derive(Debug, Clone, Copy, Default)]
struct Closed {
    /// There is a filter.
    is_closed: bool,
    /// The socket's own count of what it dropped, when that was last asked for.
    dropped: u32,
    /// Datagrams since the start, while there was a filter.
    stopped: u64,
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
        if let Err(error) = take_trains(&socket, true) {
            tracing::debug!(%error, "datagrams come one by one");
        }
        let receiving = RefCell::new(Receiving::new(TRAIN));
        Ok(Rc::new(Self {
            socket,
            watch: RefCell::default(),
            sending: RefCell::default(),
            receiving,
            gate: Cell::default(),
        }))
    }

    pub(in crate::server) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Waits until there are datagrams.
    pub(in crate::server) async fn readable(&self) -> io::Result<()> {
        let watch = self.watch()?;
        watch.readable().await.map(|_| ())
    }

    fn watch(&self) -> io::Result<Rc<AsyncFd<UdpSocket>>> {
        if let Some(watch) = self.watch.borrow().as_ref() {
            return Ok(Rc::clone(watch));
        }
        let socket = self.socket.try_clone()?;
        #[allow(
            deprecated,
            reason = "what is registered owns its descriptor, which is what `register` has to be promised"
        )]
        let watch = Rc::new(AsyncFd::with_interest(socket, Interest::READABLE)?);
        self.watch.replace(Some(Rc::clone(&watch)));
        Ok(watch)
    }

    /// Nobody is woken any more by what comes, until it is waited for that again.
    pub(in crate::server) fn look_away(&self) {
        self.watch.take();
    }

    /// Takes as many as go with one call, and returns how many datagrams those were and whether there may be more. What comes
    /// is there until `take` returns, which says of a question with STUN whether it may be answered.
    pub(in crate::server) fn take(
        &self,
        mut take: impl FnMut(Datagram, Flow, &[u8]) -> bool,
    ) -> (usize, bool) {
        let mut receiving = self.receiving.borrow_mut();
        let watch = self.watch.borrow();
        let received = match watch.as_ref() {
            Some(watch) => watch.try_io(Interest::READABLE, |socket| receiving.receive(socket)),
            None => receiving.receive(&self.socket),
        };
        let more = match received {
            Ok(BATCH) => true,
            Ok(_) => {
                // No more are there, and more will be told: what the next attempt would find out with a system call can be
                // said now.
                let none = |_: &UdpSocket| Err::<(), _>(ErrorKind::WouldBlock.into());
                if let Some(watch) = watch.as_ref() {
                    let _ = watch.try_io(Interest::READABLE, none);
                }
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
            self.sending.borrow_mut().send(&self.socket, datagrams);
        }
        (count, more)
    }

    /// Lets this share through of requests that begin something: all with 1. The others take no time any more.
    pub(in crate::server) fn let_through(&self, share: f64) -> io::Result<()> {
        self.stopped();
        let socket = socket2::SockRef::from(&self.socket);
        if share >= 1.0 {
            self.gate.set(Closed { is_closed: false, ..self.gate.get() });
            socket.detach_filter()?;
            return take_trains(&self.socket, true);
        }
        // A filter is asked once for each train: it would drop all of it, or nothing.
        take_trains(&self.socket, false)?;
        let gate = self.gate.get();
        if !gate.is_closed {
            // What was dropped before was lost for want of room.
            let dropped = dropped(&self.socket).unwrap_or_default();
            self.gate.set(Closed { is_closed: true, dropped, ..gate });
        }
        socket.attach_filter(&filter(share))
    }

    /// How many datagrams the kernel has stopped so far, with those that it had no room for meanwhile. Costs a system call while
    /// not all are let through.
    pub(in crate::server) fn stopped(&self) -> u64 {
        let mut gate = self.gate.get();
        if gate.is_closed
            && let Ok(dropped) = dropped(&self.socket)
        {
            gate.stopped += u64::from(dropped.wrapping_sub(gate.dropped));
            gate.dropped = dropped;
            self.gate.set(gate);
        }
        gate.stopped
    }

    /// Sends all that goes over UDP. What the kernel has no room for is lost, as datagrams may be.
    pub(in crate::server) fn send(&self, out: &Outbox) {
        let items = out.iter().filter(|(item, _)| item.flow.protocol == Protocol::Udp);
        let datagrams = items.map(|(item, bytes)| (Some(item.flow.peer), bytes));
        self.sending.borrow_mut().send(&self.socket, datagrams);
    }
}
