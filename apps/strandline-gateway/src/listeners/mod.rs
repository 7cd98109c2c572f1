//! The listeners: sockets that accept TCP connections for a peer.

mod counted;
mod http;
mod near;
mod preload;
mod proxy_request;
mod socks;
mod transparent;
mod udp;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use strandline_ops::bind_hint;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::accept_queue::{AcceptQueue, BACKLOG, listen};
use crate::clock::now;
use crate::config::{Clients, ListenerConfig, ListenerKind};
use crate::gateway::Gateway;
use crate::link::Link;
use crate::link_users::SocketUser;
use crate::protocol::Reason;
use crate::registry::{CloseReason, ConnectionInfo};
use crate::relay::reset;
use near::Near;

pub(crate) use udp::{UdpTarget, bind_udp, serve_udp};

/// Time for a client to say where it wants to go.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Binds the socket of a listener. Sockets that are `leaving` may have its address.
pub(crate) fn bind(config: &ListenerConfig, leaving: &[OwnedFd]) -> Result<TcpListener> {
    let open = |shares| TcpListener::from_std(listener(config, shares)?.into());
    beside(config.listen.port(), leaving, open).map_err(|error| {
        let (at, name) = (config.listen, config.kind.name());
        anyhow!("listening on TCP {at} for {name}: {error}{}", hint(config, &error))
    })
}

/// Binds the socket of a listener, and closes it.
///
/// # Errors
/// Why it can't be bound now.
pub(crate) fn try_bind(config: &ListenerConfig) -> io::Result<()> {
    listener(config, false).map(drop)
}

/// Returns the advice for an error of the socket of a listener, with a colon before it; empty if there is none.
pub(crate) fn hint(config: &ListenerConfig, error: &io::Error) -> &'static str {
    match (&config.kind, error.kind()) {
        (ListenerKind::Tproxy { .. }, io::ErrorKind::PermissionDenied) => ": TPROXY needs CAP_NET_ADMIN",
        _ => bind_hint(error),
    }
}

/// Binds a socket, also if its address is one of sockets that are closed soon: of listeners that a change of
/// the configuration has removed, here or in the process of before. For this moment they share their port
/// (SO_REUSEPORT), also with addresses that include theirs.
pub(crate) fn beside<T: AsFd>(
    port: u16,
    leaving: &[OwnedFd],
    bind: impl Fn(bool) -> io::Result<T>,
) -> io::Result<T> {
    let has_port = |socket: &&OwnedFd| {
        let address = SockRef::from(*socket).local_addr().ok().and_then(|address| address.as_socket());
        address.is_some_and(|address| address.port() == port)
    };
    let others: Vec<&OwnedFd> = leaving.iter().filter(has_port).collect();
    match bind(false) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && !others.is_empty() => {}
        done => return done,
    }
    let share = |shares| others.iter().try_for_each(|other| SockRef::from(*other).set_reuse_port(shares));
    share(true)?;
    let bound = bind(true);
    share(false)?;
    let bound = bound?;
    SockRef::from(&bound).set_reuse_port(false)?;
    Ok(bound)
}

/// Listens for status and metrics. Sockets that are `leaving` may have the address.
pub(crate) fn bind_admin(address: SocketAddr, leaving: &[OwnedFd]) -> io::Result<TcpListener> {
    beside(address.port(), leaving, |shares_port| listen(address, shares_port))
}

fn listener(config: &ListenerConfig, shares_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(config.listen), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shares_port)?;
    let is_tproxy = matches!(config.kind, ListenerKind::Tproxy { .. });
    if let SocketAddr::V6(listen) = config.listen {
        // Whatever net.ipv6.bindv6only says: of both IP versions, unless each has a socket of its own.
        socket.set_only_v6(is_tproxy && listen.ip().to_ipv4_mapped().is_none())?;
    }
    if is_tproxy {
        if config.listen.is_ipv4() {
            socket.set_ip_transparent_v4(true)?
        } else {
            socket.set_ip_transparent_v6(true)?
        }
    }
    if matches!(config.kind, ListenerKind::Preload { .. }) {
        strandline_ops::narrow_window(&socket)?;
    }
    socket.bind(&config.listen.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Where the connections of a listener go. A reload may change it.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) kind: Arc<ListenerKind>,
    pub(crate) link: Arc<Link>,
    pub(crate) from: Clients,
    /// As long as connections may come with this target.
    pub(crate) _user: SocketUser,
}

/// Accepts connections until the sender of the target is dropped. Those that have come until then are served.
/// `has_failed` is true while the socket accepts none.
pub(crate) async fn serve(
    queue: AcceptQueue,
    mut target: watch::Receiver<Target>,
    gateway: Arc<Gateway>,
    has_failed: Arc<watch::Sender<bool>>,
) {
    let _may_accept = gateway.registry.coming();
    let own = queue.listener.local_addr().ok();
    let targets = target.clone();
    let begin = |tcp: TcpStream, client: SocketAddr| {
        // Held until the connection counts for its link.
        let target = targets.borrow();
        let Target { kind, link, from, .. } = &*target;
        let refuse = |tcp: TcpStream, reason: Reason| {
            let mut refused = gateway.registry.begin(ConnectionInfo {
                listener: kind.name(),
                peer: Arc::clone(&link.name),
                client: Some(client),
                destination: String::new(),
                is_near: true,
            });
            refused.set_end(CloseReason::Failed(reason));
            // Counted before the client learns of it.
            drop(refused);
            reset(tcp);
        };
        if !from.include(client.ip()) {
            return refuse(tcp, Reason::NotAllowed);
        }
        let Some(share) = link.clients.take(client.ip(), &gateway.settings().limits, now()) else {
            return refuse(tcp, Reason::Limit);
        };
        let near = Near::new(Arc::clone(&gateway), Arc::clone(link), client, share);
        tokio::spawn(accepted(Arc::clone(kind), tcp, near, own));
    };
    queue.accept_until(closed(&mut target), &has_failed, begin).await;
}

/// Waits until the sender is dropped.
async fn closed<T>(receiver: &mut watch::Receiver<T>) {
    while receiver.changed().await.is_ok() {}
}

async fn accepted(kind: Arc<ListenerKind>, tcp: TcpStream, near: Near, own: Option<SocketAddr>) {
    match &*kind {
        ListenerKind::Socks { early_reply } => socks::serve(tcp, near, *early_reply).await,
        ListenerKind::HttpConnect { early_reply } => http::serve(tcp, near, *early_reply).await,
        ListenerKind::Preload { early_reply } => preload::serve(tcp, near, *early_reply).await,
        ListenerKind::Forward { to } => near.pass("forward", tcp, to.clone()).await,
        ListenerKind::Redirect { .. } => transparent::redirected(tcp, near, own).await,
        ListenerKind::Tproxy { .. } => transparent::diverted(tcp, near, own).await,
    }
}
