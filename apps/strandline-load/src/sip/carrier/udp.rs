//! UDP: a socket for each source, many datagrams with each system call.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::rc::Rc;

use anyhow::{Context, Result};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::sip::engine::Out;
use crate::sip::load::{Carrier, Load};

use super::{by_source, bytes};

/// Datagrams with one call.
const BATCH: usize = 64;
/// The largest that is expected.
const DATAGRAM: usize = 4096;

/// The sockets.
pub(in crate::sip) struct Udp {
    sockets: Vec<Rc<UdpSocket>>,
    headers: RefCell<MultiHeaders<SockaddrStorage>>,
}

/// Opens a socket for each source, and returns their addresses.
pub(in crate::sip) async fn open(
    server: SocketAddr,
    local: &[IpAddr],
    sources: usize,
) -> Result<(Udp, Vec<SocketAddr>)> {
    let (mut sockets, mut addresses) = (Vec::new(), Vec::new());
    for ip in local.iter().cycle().take(sources) {
        let socket = UdpSocket::bind((*ip, 0)).await.with_context(|| format!("a UDP socket at {ip}"))?;
        socket.connect(server).await.with_context(|| format!("sending to {server}"))?;
        addresses.push(socket.local_addr()?);
        sockets.push(Rc::new(socket));
    }
    Ok((Udp { sockets, headers: RefCell::new(MultiHeaders::preallocate(BATCH, None)) }, addresses))
}

impl Udp {
    /// Receives on all sockets until the tasks are ended.
    pub(in crate::sip) fn serve(&self, load: &Rc<Load>) {
        for (source, socket) in self.sockets.iter().enumerate() {
            tokio::task::spawn_local(receive(Rc::clone(socket), source, Rc::clone(load)));
        }
    }
}

impl Carrier for Udp {
    fn send(&self, out: &Out) {
        for (source, messages) in by_source(out) {
            let Some(socket) = self.sockets.get(source) else { continue };
            for batch in messages.chunks(BATCH) {
                let slices: Vec<[IoSlice<'_>; 1]> =
                    batch.iter().map(|message| [IoSlice::new(bytes(out, message))]).collect();
                let none = vec![None::<SockaddrStorage>; slices.len()];
                let mut headers = self.headers.borrow_mut();
                // What doesn't go is lost, as datagrams may be.
                let _ = sendmmsg(
                    socket.as_raw_fd(),
                    &mut headers,
                    slices.iter(),
                    &none,
                    [],
                    MsgFlags::MSG_DONTWAIT,
                )
                .map(Iterator::count);
            }
        }
    }
}

async fn receive(socket: Rc<UdpSocket>, source: usize, load: Rc<Load>) {
    let mut room = vec![0; BATCH * DATAGRAM];
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    while socket.readable().await.is_ok() {
        let taken = socket.try_io(Interest::READABLE, || {
            let mut places: Vec<[IoSliceMut<'_>; 1]> =
                room.chunks_mut(DATAGRAM).map(|place| [IoSliceMut::new(place)]).collect();
            let flags = MsgFlags::MSG_DONTWAIT;
            let came = recvmmsg(socket.as_raw_fd(), &mut headers, places.iter_mut(), flags, None)?;
            Ok::<_, io::Error>(came.map(|message| message.bytes).collect::<Vec<usize>>())
        });
        match taken {
            Ok(lens) => load.with(|engine, now| {
                for (place, len) in room.chunks(DATAGRAM).zip(lens) {
                    engine.handle(now, source, place.get(..len).unwrap_or(&[]));
                }
            }),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // The server isn't there, or not yet: requests are sent again.
            Err(error) => tracing::debug!(%error, "receiving"),
        }
    }
}
