//! Accepting the TCP connections of a socket: again after it has failed, and those that wait when it ends.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::net::SocketFlags;
use strandline_tls::AcceptErrors;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Connections that wait to be accepted.
pub(crate) const BACKLOG: i32 = 4096;

/// Listens at an address: of both IP versions if it is `[::]`.
///
/// # Errors
/// If the address can't be bound.
pub(crate) fn listen(address: SocketAddr, shares_port: bool) -> io::Result<TcpListener> {
    TcpListener::from_std(strandline_ops::listen_tcp(address, shares_port)?)
}

/// A socket that listens, and another descriptor of it, to make it listen again.
#[derive(Debug)]
pub(crate) struct AcceptQueue {
    pub(crate) listener: TcpListener,
    pub(crate) socket: std::net::TcpListener,
}

impl AcceptQueue {
    /// Takes a listener, and duplicates its descriptor.
    ///
    /// # Errors
    /// If there are too many descriptors.
    pub(crate) fn new(listener: TcpListener) -> io::Result<Self> {
        let socket = listener.as_fd().try_clone_to_owned()?.into();
        Ok(Self { listener, socket })
    }

    /// Accepts connections until `ended` is ready, and returns its value. Those that have come until then are accepted,
    /// too: their clients are connected already, and the end of the socket would reset them. `has_failed` is true
    /// while the socket accepts none.
    pub(crate) async fn accept_until<T>(
        self,
        ended: impl Future<Output = T>,
        has_failed: &watch::Sender<bool>,
        begin: impl Fn(TcpStream, SocketAddr),
    ) -> T {
        let Self { listener, socket } = self;
        let value = tokio::select! {
            never = accept_always(listener, &socket, has_failed, &begin) => match never {},
            value = ended => value,
        };
        for _ in 0..BACKLOG {
            match accept_at_once(&socket) {
                Ok((tcp, client)) => begin(tcp, client),
                // Of one connection: others wait behind it.
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                // None waits any more, or the socket accepts none.
                Err(_) => break,
            }
        }
        value
    }
}

/// Accepts connections. A socket that fails listens again.
async fn accept_always(
    mut listener: TcpListener,
    socket: &std::net::TcpListener,
    has_failed: &watch::Sender<bool>,
    begin: impl Fn(TcpStream, SocketAddr),
) -> Infallible {
    let (own, mut errors) = (listener.local_addr().ok(), AcceptErrors::default());
    loop {
        let error = accept_all(&listener, &mut errors, &begin).await;
        has_failed.send_replace(true);
        drop(listener);
        let Some(own) = own else { std::future::pending().await };
        let register = |socket: &std::net::TcpListener| TcpListener::from_std(socket.try_clone()?);
        listener = errors.listen_again(&error, socket, own, |socket| register(socket)).await;
        has_failed.send_replace(false);
    }
}

/// Accepts connections until the socket fails. Returns its error.
async fn accept_all(
    listener: &TcpListener,
    errors: &mut AcceptErrors,
    begin: impl Fn(TcpStream, SocketAddr),
) -> io::Error {
    loop {
        match listener.accept().await {
            Ok((tcp, client)) => begin(tcp, client),
            Err(error) => {
                if let Err(error) = errors.recover(error).await {
                    return error;
                }
            }
        }
    }
}

/// Takes a connection that waits to be accepted, whether or not the runtime has heard of it.
fn accept_at_once(listener: &impl AsFd) -> io::Result<(TcpStream, SocketAddr)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Also the address of a client that has reset its connection, which the socket itself lacks then.
    let (tcp, client) = rustix::net::acceptfrom_with(listener, flags)?;
    let client = client.ok_or(ErrorKind::ConnectionAborted)?.try_into()?;
    Ok((TcpStream::from_std(tcp.into())?, client))
}

#[cfg(test)]
mod tests;
