//! UDP, with many datagrams for each system call.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::time::Duration;

use strandline_ops::bind_udp;
use strandline_udp::{BATCH, Receiving, Sending, TRAIN, dropped, note_times, take_trains};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::codec::{Datagram, binding_answer};
use crate::server::clock::Clock;
use crate::transaction::{Flow, Outbox, Protocol};

use super::gate::filter;
use super::trains::Trains;

/// Requested size of the kernel's socket buffers, in bytes.
const RECEIVE_BUFFER: usize = 8 << 20;

/// A UDP socket. Nothing waits for room in it: each datagram taken by its receiver makes some, and an event
/// for that would wake the server once more for each response.
pub(in crate::server) struct Udp {
    socket: Rc<UdpSocket>,
    /// The socket as registered for input, while it is waited for. It has the same descriptor: a second one may not
    /// be available when it is waited for again.
    watch: RefCell<Option<Rc<AsyncFd<Rc<UdpSocket>>>>>,
    sending: RefCell<Sending>,
    receiving: RefCell<Receiving>,
    gate: Cell<Closed>,
    trains: RefCell<Trains>,
    coalescing: Cell<Coalescing>,
    /// True while the kernel notes when it receives a datagram.
    notes_times: Cell<bool>,
}

/// Whether datagrams are received coalesced.
#[derive(Debug, Clone, Copy)]
struct Coalescing {
    is_on: bool,
    /// It is switched off once nothing coalesced waits in the socket: that would lose all but its first message.
    is_wanted: bool,
}

/// Datagrams dropped by the kernel.
#[derive(Debug, Clone, Copy, Default)]
struct Closed {
    /// True if a filter is attached.
    is_closed: bool,
    /// The socket's drop counter when it was last read.
    dropped: u32,
    /// Number of datagrams dropped since the start while a filter was attached. The kernel counts a train as
    /// one; its length is estimated.
    stopped: f64,
}

impl Udp {
    pub(in crate::server) fn bind(address: SocketAddr) -> io::Result<Rc<Self>> {
        Self::of(bind_udp(address, false)?)
    }

    /// Wraps a socket that was opened before, and perhaps used.
    pub(in crate::server) fn of(socket: UdpSocket) -> io::Result<Rc<Self>> {
        socket.set_nonblocking(true)?;
        let reference = socket2::SockRef::from(&socket);
        // A previous process may have left a filter from an overload. Usually there is none.
        let _ = reference.detach_filter();
        // The system limits this to its maximum.
        reference.set_recv_buffer_size(RECEIVE_BUFFER)?;
        reference.set_send_buffer_size(RECEIVE_BUFFER)?;
        if let Err(error) = take_trains(&socket, true) {
            tracing::debug!(%error, "enabling UDP GRO failed; datagrams are received one by one");
        }
        let receiving = RefCell::new(Receiving::new(TRAIN));
        Ok(Rc::new(Self {
            socket: Rc::new(socket),
            watch: RefCell::default(),
            sending: RefCell::default(),
            receiving,
            gate: Cell::default(),
            trains: RefCell::default(),
            coalescing: Cell::new(Coalescing { is_on: true, is_wanted: true }),
            notes_times: Cell::default(),
        }))
    }

    pub(in crate::server) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Waits until datagrams arrive.
    ///
    /// # Errors
    /// Returns an error if the system can't watch the socket: it lacks memory, or the user has no more watches
    /// (fs.epoll.max_user_watches). Datagrams can be taken nevertheless.
    pub(in crate::server) async fn readable(&self) -> io::Result<()> {
        let watch = self.watch()?;
        watch.readable().await.map(|_| ())
    }

    fn watch(&self) -> io::Result<Rc<AsyncFd<Rc<UdpSocket>>>> {
        if let Some(watch) = self.watch.borrow().as_ref() {
            return Ok(Rc::clone(watch));
        }
        #[allow(
            deprecated,
            reason = "what is registered owns its descriptor, which is what `register` has to be promised"
        )]
        let watch = Rc::new(AsyncFd::with_interest(Rc::clone(&self.socket), Interest::READABLE)?);
        self.watch.replace(Some(Rc::clone(&watch)));
        Ok(watch)
    }

    /// Stops waiting for input, so that arriving datagrams don't wake the thread.
    pub(in crate::server) fn look_away(&self) {
        self.watch.take();
    }

    /// Sets whether [`take`](Self::take) is told how long datagrams have waited in the socket.
    pub(in crate::server) fn note_times(&self, times: bool) {
        if self.notes_times.replace(times) != times
            && let Err(error) = note_times(&self.socket, times)
        {
            tracing::debug!(%error, "the times of datagrams are not known");
        }
    }

    /// Takes the datagrams of one system call, and returns their number and whether more may be available. A
    /// datagram is valid until `take` returns, which decides whether a STUN request is answered. The last
    /// argument of `take` is how long the datagram has waited in the socket, if [`note_times`](Self::note_times)
    /// asks for that.
    pub(in crate::server) fn take(
        &self,
        mut take: impl FnMut(Datagram, Flow, &[u8], Duration) -> bool,
    ) -> (usize, bool) {
        let mut receiving = self.receiving.borrow_mut();
        let received = match self.watch.borrow().as_ref() {
            Some(watch) => watch.try_io(Interest::READABLE, |socket| receiving.receive(socket)),
            None => receiving.receive(&self.socket),
        };
        let more = match received {
            Ok(BATCH) => true,
            Ok(_) => {
                self.on_empty();
                false
            }
            Err(error) => {
                // Otherwise an ICMP error from a closed peer, which can't be handled.
                if error.kind() == ErrorKind::WouldBlock {
                    self.stop_coalescing();
                } else {
                    tracing::debug!(%error, "receiving datagrams failed");
                }
                return (0, false);
            }
        };
        let (mut count, mut answers) = (0, Vec::new());
        let now = self.notes_times.get().then(Clock::unix);
        let mut trains = self.trains.borrow_mut();
        for train in receiving.trains() {
            trains.count(train.datagrams());
            let waited = now.zip(train.at).map_or(Duration::ZERO, |(now, at)| now.saturating_sub(at));
            for bytes in train.datagrams() {
                count += 1;
                let Some(peer) = train.peer else { continue };
                let kind = Datagram::of(bytes);
                if take(kind, Flow::to(Protocol::Udp, peer), bytes, waited) && kind == Datagram::Stun {
                    answers.extend(binding_answer(bytes, peer).map(|answer| (peer, answer)));
                }
            }
        }
        if !answers.is_empty() {
            let datagrams = answers.iter().map(|(peer, bytes)| (Some(*peer), bytes.as_slice()));
            self.sending.borrow_mut().send(&self.socket, datagrams);
        }
        (count, more)
    }

    /// No more datagrams are available, and the next ones will be reported. Marks the socket as not ready without
    /// another system call.
    fn on_empty(&self) {
        let none = |_: &Rc<UdpSocket>| Err::<(), _>(ErrorKind::WouldBlock.into());
        if let Some(watch) = self.watch.borrow().as_ref() {
            let _ = watch.try_io(Interest::READABLE, none);
        }
        self.stop_coalescing();
    }

    /// Switches coalescing off if that is wanted. Call it when the socket is empty.
    fn stop_coalescing(&self) {
        let Coalescing { is_on, is_wanted } = self.coalescing.get();
        if is_on && !is_wanted {
            self.coalesce(false);
        }
    }

    fn coalesce(&self, is_on: bool) {
        self.coalescing.set(Coalescing { is_on, is_wanted: is_on });
        if let Err(error) = take_trains(&self.socket, is_on) {
            tracing::debug!(%error, is_on, "setting UDP GRO failed");
        }
    }

    /// Decides whether datagrams may be received coalesced while a filter is attached. Call it about every ten
    /// milliseconds.
    pub(in crate::server) fn look_at_trains(&self, now: Duration) {
        let is_filtered = self.gate.get().is_closed;
        let mut trains = self.trains.borrow_mut();
        trains.look(now, is_filtered);
        self.want_trains(!is_filtered || trains.are_allowed());
    }

    fn want_trains(&self, is_wanted: bool) {
        let Coalescing { is_on, .. } = self.coalescing.get();
        self.coalescing.set(Coalescing { is_on, is_wanted });
        if is_wanted && !is_on {
            self.coalesce(true);
        }
    }

    /// Passes this share of the requests that begin a transaction; 1 passes all. The kernel drops the others.
    pub(in crate::server) fn let_through(&self, share: f64) -> io::Result<()> {
        self.stopped();
        let socket = socket2::SockRef::from(&self.socket);
        if share >= 1.0 {
            self.gate.set(Closed { is_closed: false, ..self.gate.get() });
            self.want_trains(true);
            return socket.detach_filter();
        }
        let gate = self.gate.get();
        if !gate.is_closed {
            // Earlier drops were caused by a full buffer.
            let dropped = dropped(&self.socket).unwrap_or_default();
            self.gate.set(Closed { is_closed: true, dropped, ..gate });
        }
        // The filter drops all of a train or nothing.
        self.want_trains(self.trains.borrow().are_allowed());
        socket.attach_filter(&filter(share))
    }

    /// The number of datagrams that the kernel has dropped so far, including those for which it had no room
    /// meanwhile. It costs a system call while a filter is attached.
    pub(in crate::server) fn stopped(&self) -> u64 {
        let mut gate = self.gate.get();
        if gate.is_closed
            && let Ok(dropped) = dropped(&self.socket)
        {
            gate.stopped +=
                f64::from(dropped.wrapping_sub(gate.dropped)) * self.trains.borrow().dropped_len();
            gate.dropped = dropped;
            self.gate.set(gate);
        }
        gate.stopped as u64
    }

    /// Sends all UDP messages. Datagrams for which the kernel has no room are lost.
    pub(in crate::server) fn send(&self, out: &Outbox) {
        let items = out.iter().filter(|(item, _)| item.flow.protocol == Protocol::Udp);
        let datagrams = items.map(|(item, bytes)| (Some(item.flow.peer), bytes));
        self.sending.borrow_mut().send(&self.socket, datagrams);
    }
}

#[cfg(test)]
mod tests;
