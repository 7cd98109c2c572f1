//! UDP: one socket for each source, many datagrams with each system call.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;

use anyhow::{Context, Result};
use strandline::Address;
use strandline_udp::{BATCH, Receiving, Sending, TRAIN, take_trains};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::sip::load::{Carrier, Load};
use crate::sip::out::Out;

use super::{by_source, bytes};

/// Receive buffer of each socket, so that no datagram is lost while others are read. The kernel reduces it to
/// its limit.
const RECEIVE_BUFFER: usize = 4 << 20;

/// The socket of a source. Nothing waits for room in it: such events would wake the load once more for each
/// request.
type Source = AsyncFd<UdpSocket>;

/// The sockets.
pub(in crate::sip) struct Udp {
    sockets: Vec<Rc<Source>>,
    sending: RefCell<Sending>,
}

/// Opens a socket for each source, and returns the addresses.
pub(in crate::sip) async fn open(
    server: SocketAddr,
    local: &[Address],
    sources: usize,
) -> Result<(Udp, Vec<SocketAddr>)> {
    let (mut sockets, mut addresses) = (Vec::new(), Vec::new());
    for ip in local.iter().cycle().take(sources) {
        let socket =
            UdpSocket::bind(ip.with_port(0)).with_context(|| format!("opening a UDP socket at {ip}"))?;
        socket.connect(server).with_context(|| format!("connecting a UDP socket to {server}"))?;
        socket.set_nonblocking(true)?;
        socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER)?;
        if let Err(error) = take_trains(&socket, true) {
            tracing::debug!(%error, "enabling UDP GRO failed; datagrams are received one by one");
        }
        addresses.push(socket.local_addr()?);
        #[allow(
            deprecated,
            reason = "what is registered owns its descriptor, which is what `register` has to be promised"
        )]
        let socket = AsyncFd::with_interest(socket, Interest::READABLE)?;
        sockets.push(Rc::new(socket));
    }
    Ok((Udp { sockets, sending: RefCell::default() }, addresses))
}

impl Udp {
    /// Receives on all sockets until the tasks are ended.
    pub(in crate::sip) fn serve(&self, load: &Rc<Load>) {
        let receiving = Rc::new(RefCell::new(Receiving::new(TRAIN)));
        for (source, socket) in self.sockets.iter().enumerate() {
            let (socket, receiving) = (Rc::clone(socket), Rc::clone(&receiving));
            tokio::task::spawn_local(receive(socket, source, receiving, Rc::clone(load)));
        }
    }
}

impl Carrier for Udp {
    fn send(&self, out: &Out, _: &Load) {
        let mut sending = self.sending.borrow_mut();
        for (source, messages) in by_source(out) {
            if let Some(socket) = self.sockets.get(source) {
                sending.send(socket.get_ref(), messages.iter().map(|message| (None, bytes(out, message))));
            }
        }
    }
}

async fn receive(socket: Rc<Source>, source: usize, room: Rc<RefCell<Receiving>>, load: Rc<Load>) {
    while socket.readable().await.is_ok() {
        let room = &mut *room.borrow_mut();
        match socket.try_io(Interest::READABLE, |socket| room.receive(socket)) {
            Ok(count) => {
                if count < BATCH {
                    // No more datagrams are there, and new ones will be reported, so the readiness can be
                    // cleared.
                    let none = |_: &UdpSocket| Err::<(), _>(ErrorKind::WouldBlock.into());
                    let _ = socket.try_io(Interest::READABLE, none);
                }
                load.with(|engine, now| {
                    room.datagrams().for_each(|(_, bytes)| engine.handle(now, source, bytes));
                });
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // The server isn't listening, or not yet: requests are retransmitted.
            Err(error) => tracing::debug!(%error, "receiving datagrams failed"),
        }
    }
}
