//! Accepts connections, with and without TLS and WebSocket.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use rustix::net::{SocketFlags, acceptfrom_with};
use strandline_ops::{is_silent_since, socket_for};
use strandline_tls::{AcceptErrors, is_fatal};
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;

use crate::server::hub::Hub;
use crate::server::socket::{AGE_MIN, ConnectionLimits};
use crate::service::is_identified;
use crate::transaction::Protocol;

use super::epoll_set::Set;
use super::new_connections::Fresh;
use super::tcp::{SHED, greet, wire};

/// Maximum number of connections that wait to be accepted: the kernel's default limit (net.core.somaxconn).
const BACKLOG: i32 = 4096;

/// A listening socket.
pub(in crate::server) type Listening = AsyncFd<std::net::TcpListener>;

pub(in crate::server) fn listen(address: SocketAddr, limits: &ConnectionLimits) -> io::Result<Listening> {
    listening(bind(address, limits, false)?)
}

/// Creates a listening socket. With `joins`, it shares its address with the sockets of other processes.
pub(in crate::server) fn bind(
    address: SocketAddr,
    limits: &ConnectionLimits,
    joins: bool,
) -> io::Result<socket2::Socket> {
    let socket = socket_for(address, socket2::Type::STREAM)?;
    socket.set_reuse_address(true)?;
    // Accepted connections inherit these options.
    socket.set_tcp_nodelay(true)?;
    limits.apply(&socket)?;
    socket.set_reuse_port(joins)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Registers a listening socket with the runtime.
pub(in crate::server) fn listening(socket: socket2::Socket) -> io::Result<Listening> {
    #[allow(
        deprecated,
        reason = "what is registered owns its descriptor, which is what `register` has to be promised"
    )]
    AsyncFd::new(socket.into())
}

/// Accepts connections until the task is ended.
pub(in crate::server) async fn serve(
    mut listener: Listening,
    hub: Rc<Hub>,
    set: Rc<Set>,
    protocol: Protocol,
) {
    let at = listener.get_ref().local_addr();
    let fresh = Fresh::start(&hub, Rc::clone(&set));
    let mut errors = AcceptErrors::default();
    loop {
        let Ok(mut ready) = listener.readable().await else { return };
        match accept(listener.get_ref()) {
            // Of many that wait to be accepted, those without a message would take the last descriptors in turn.
            Ok((stream, _)) if set.is_short(&hub) && is_silent_since(&stream, AGE_MIN) => {}
            Ok((stream, peer)) => {
                if let Err(error) = take(stream, peer, protocol, &hub, &fresh) {
                    recover(&error, &mut errors, &hub, &set, &fresh).await;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                ready.clear_ready();
                fresh.look_again(&hub);
            }
            Err(error) if is_fatal(&error) => {
                let Ok(at) = at else { return };
                let register = |socket: &std::net::TcpListener| listening(socket.try_clone()?.into());
                listener = errors.listen_again(&error, listener.into_inner(), at, register).await;
            }
            Err(error) => recover(&error, &mut errors, &hub, &set, &fresh).await,
        }
    }
}

/// Takes an accepted connection, if its peer has access and there is room.
fn take(
    stream: std::net::TcpStream,
    peer: SocketAddr,
    protocol: Protocol,
    hub: &Rc<Hub>,
    fresh: &Fresh,
) -> io::Result<()> {
    let now = hub.clock.elapsed();
    let makes_room = || {
        let service = hub.service.borrow();
        let is_served = |connection| is_identified(&service, connection);
        hub.transports.connections.makes_room(peer, &hub.transports.room.get(), now, is_served)
    };
    if !hub.intake.inbox(|inbox| inbox.admits(now, peer.ip())) || !makes_room() {
        return Ok(());
    }
    if protocol == Protocol::Tcp {
        fresh.begin(stream, peer, hub);
        return Ok(());
    }
    let wire = wire(TcpStream::from_std(stream)?, hub, protocol)?;
    let connection = hub.transports.connections.add(protocol, peer);
    tokio::task::spawn_local(greet(Rc::clone(hub), connection, wire));
    Ok(())
}

/// Pauses after an error. If descriptors or memory are exhausted, it first closes connections that have
/// ended, and some of strangers.
async fn recover(error: &io::Error, errors: &mut AcceptErrors, hub: &Rc<Hub>, set: &Set, fresh: &Fresh) {
    let found = errors.on_error(error);
    if let Some(unlogged) = found.log {
        tracing::warn!(%error, unlogged, "accepting a TCP connection failed");
    }
    let mut pause = found.pause;
    if found.is_exhausted {
        set.note_shortage(hub);
        fresh.look_again(hub);
        if hub.shed_strangers() > 0 {
            pause = SHED;
        }
    }
    tokio::time::sleep(pause).await;
}

/// Accepts a connection, without blocking.
pub(super) fn accept(listener: &std::net::TcpListener) -> io::Result<(std::net::TcpStream, SocketAddr)> {
    let (socket, peer) = acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    let peer = peer.ok_or(io::ErrorKind::ConnectionAborted)?;
    Ok((socket.into(), SocketAddr::try_from(peer)?))
}

#[cfg(test)]
mod tests;
