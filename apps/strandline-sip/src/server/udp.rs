//! UDP: many datagrams with each system call.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::codec::Datagram;
use crate::transaction::{Flow, Outbox, Protocol};

use super::hub::Hub;

/// Datagrams with one call.
const BATCH: usize = 64;
/// The largest datagram there is.
const DATAGRAM: usize = 65_536;
/// What the kernel is asked to keep for us while we are busy, bytes.
const RECEIVE_BUFFER: usize = 8 << 20;

/// A UDP socket.
pub(super) struct Udp {
    socket: UdpSocket,
    sending: RefCell<MultiHeaders<SockaddrStorage>>,
}

impl Udp {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Rc<Self>> {
        let socket = std::net::UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        let reference = socket2::SockRef::from(&socket);
        // More than the system allows is cut to that.
        reference.set_recv_buffer_size(RECEIVE_BUFFER)?;
        reference.set_send_buffer_size(RECEIVE_BUFFER)?;
        let socket = UdpSocket::from_std(socket)?;
        Ok(Rc::new(Self { socket, sending: RefCell::new(MultiHeaders::preallocate(BATCH, None)) }))
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Receives until the task is ended.
    pub(super) async fn serve(self: Rc<Self>, hub: Rc<Hub>) {
        let mut room = vec![0; BATCH * DATAGRAM];
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
        loop {
            if let Err(error) = self.socket.readable().await {
                tracing::error!(%error, "waiting for datagrams");
                return;
            }
            let received = self.socket.try_io(Interest::READABLE, || self.receive(&hub, &mut room, &mut headers));
            match received {
                Ok(()) => tokio::task::yield_now().await,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // What came back from a peer that is gone; there is nothing to do about it.
                Err(error) => tracing::debug!(%error, "receiving datagrams"),
            }
        }
    }

    fn receive(
        &self,
        hub: &Rc<Hub>,
        room: &mut [u8],
        headers: &mut MultiHeaders<SockaddrStorage>,
    ) -> io::Result<()> {
        let mut places: Vec<[IoSliceMut<'_>; 1]> =
            room.chunks_mut(DATAGRAM).map(|place| [IoSliceMut::new(place)]).collect();
        let received =
            recvmmsg(self.socket.as_raw_fd(), headers, places.iter_mut(), MsgFlags::MSG_DONTWAIT, None)?;
        hub.with(|service, now| {
            for message in received {
                let (Some(peer), Some(bytes)) = (message.address.as_ref().and_then(address), message.iovs().next())
                else {
                    continue;
                };
                if Datagram::of(bytes) == Datagram::Sip {
                    service.handle_message(now, Flow::to(Protocol::Udp, peer), bytes);
                }
            }
        });
        Ok(())
    }

    /// Sends all that goes over UDP. What the kernel has no room for is lost, as datagrams may be.
    pub(super) fn send(&self, out: &Outbox) {
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
            let sent =
                sendmmsg(self.socket.as_raw_fd(), &mut headers, slices, &addresses, [], MsgFlags::MSG_DONTWAIT);
            match sent.map(Iterator::count) {
                Ok(count @ 1..) => done += count,
                // The first one can't be sent: the others may be.
                Ok(0) | Err(_) => done += 1,
            }
        }
    }
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some(SocketAddr::V4((*v4).into()));
    }
    storage.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into()))
}
