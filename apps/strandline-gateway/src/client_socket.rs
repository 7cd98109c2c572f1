//! A UDP socket for clients. Another one takes its place if something else has shut it down: another process that has
//! it, or an administrator (`ss --kill`).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use strandline_tls::AcceptErrors;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::watch;

/// Binds a UDP socket: of both IP versions if it is at `[::]`.
///
/// # Errors
/// If the address can't be bound.
pub(crate) fn bind(address: SocketAddr, shares_port: bool) -> io::Result<UdpSocket> {
    UdpSocket::from_std(strandline_ops::bind_udp(address, shares_port)?)
}

/// A UDP socket for clients.
#[derive(Debug)]
pub(crate) struct ClientSocket {
    at: SocketAddr,
    /// `None` while it can't listen again.
    socket: RwLock<Option<Arc<UdpSocket>>>,
    has_failed: watch::Sender<bool>,
}

impl ClientSocket {
    /// Makes one of a socket that is bound to this address.
    pub(crate) fn new(socket: UdpSocket, at: SocketAddr) -> Self {
        Self { at, socket: RwLock::new(Some(Arc::new(socket))), has_failed: watch::Sender::new(false) }
    }

    fn lock(&self) -> RwLockReadGuard<'_, Option<Arc<UdpSocket>>> {
        self.socket.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, socket: Option<Arc<UdpSocket>>) {
        let has_failed = socket.is_none();
        *self.socket.write().unwrap_or_else(PoisonError::into_inner) = socket;
        self.has_failed.send_replace(has_failed);
    }

    /// Returns whether it [has failed](Self::has_failed), now and whenever that changes.
    pub(crate) fn failures(&self) -> watch::Receiver<bool> {
        self.has_failed.subscribe()
    }

    /// Returns whether it receives nothing, because it was shut down and can't listen again.
    pub(crate) fn has_failed(&self) -> bool {
        self.lock().is_none()
    }

    /// Returns another descriptor of the socket; `None` if it [has failed](Self::has_failed).
    ///
    /// # Errors
    /// If there are too many descriptors.
    pub(crate) fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        self.lock().as_ref().map(|socket| socket.as_fd().try_clone_to_owned()).transpose()
    }

    /// Sends a datagram to a client. Returns whether there was room for it.
    pub(crate) fn try_send_to(&self, datagram: &[u8], client: SocketAddr) -> bool {
        // Locked meanwhile: its address is free once it is taken out.
        self.lock().as_ref().is_some_and(|socket| socket.try_send_to(datagram, client).is_ok())
    }

    /// Receives a datagram, and returns its length and its client. `errors` are those of this socket so far.
    pub(crate) async fn recv_from(&self, room: &mut [u8], errors: &mut AcceptErrors) -> (usize, SocketAddr) {
        loop {
            let socket = self.lock().clone();
            if let Some(socket) = socket
                && let Some(received) = receive(&socket, room).await
            {
                return received;
            }
            // The last one here: the address is free.
            self.set(None);
            let error = io::Error::other("the socket was shut down");
            let open = || async {
                let socket = bind(self.at, false)?;
                // Known from here on, so that the first answer is not lost.
                socket.writable().await?;
                Ok(socket)
            };
            let opened = errors.open_again(&error, "receiving datagrams", self.at, open).await;
            self.set(Some(Arc::new(opened)));
        }
    }
}

/// Receives a datagram; `None` once the socket receives none any more.
async fn receive(socket: &UdpSocket, room: &mut [u8]) -> Option<(usize, SocketAddr)> {
    loop {
        if socket.ready(Interest::READABLE).await.ok()?.is_read_closed() {
            return None;
        }
        match socket.try_recv_from(room) {
            Ok(received) => return Some(received),
            // The kernel takes back a port that it had chosen.
            Err(_) if socket.local_addr().is_ok_and(|at| at.port() == 0) => return None,
            // Errors are those of earlier datagrams: their clients are gone.
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
