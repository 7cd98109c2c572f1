//! TCP, with and without TLS and WebSocket. Plain TCP connections are read by one task (see `set`). With TLS
//! or WebSocket, each connection has a task, which holds no buffer while it waits.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use strandline::Address;
use strandline_tls::{ClientTls, Wire, domains, is_domain, is_exhausted};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::codec::{Cut, Side, StreamFramer};
use crate::transaction::{ClientId, Flow, Protocol};

use crate::server::hub::Hub;
use crate::server::socket::{Begun, Connection, ConnectionLimits};

use super::epoll_set::Set;
use super::framer::Framer;
use super::reader::{Reader, TIMEOUT, end, with_room};
use super::work::work_between;
use super::ws;

/// How long to wait until closed connections have freed their descriptors.
pub(super) const SHED: Duration = Duration::from_millis(5);
/// Timeout for opening a connection.
const OPEN: Duration = Duration::from_secs(5);

pub(super) fn wire(stream: TcpStream, hub: &Hub, protocol: Protocol) -> io::Result<Wire> {
    match &hub.transports.tls.borrow().server {
        Some(tls) if protocol.is_secure() => Wire::accepted(stream, tls),
        _ => Ok(Wire::plain(stream)),
    }
}

/// Performs the handshakes of TLS and WebSocket.
pub(super) async fn greet(hub: Rc<Hub>, connection: Rc<Connection>, wire: Wire) {
    let wire = Rc::new(wire);
    connection.greeting(Rc::clone(&wire));
    let greeted = async {
        wire.handshake().await?;
        if connection.protocol.is_websocket() { ws::greet(&wire, &hub).await } else { Ok(Vec::new()) }
    };
    match tokio::time::timeout(OPEN, greeted).await {
        Ok(Ok(rest)) => {
            let proved = wire.peer_certificate().map(|certificate| domains(&certificate)).unwrap_or_default();
            let peers = Rc::clone(&hub.transports.tls.borrow().peers);
            let is_peer = |proved: &String| peers.iter().any(|peer| is_domain(proved, peer));
            if proved.iter().any(is_peer) {
                hub.service.borrow_mut().connections_mut().trust(connection.id);
            }
            if !proved.is_empty() && connection.protocol == Protocol::Tls {
                hub.service.borrow_mut().connections_mut().certify(connection.id);
                hub.transports.connections.aliases.borrow_mut().prove(connection.id, proved);
            }
            if connection.protocol.is_websocket() {
                let frames = ws::Frames::new(&hub, &connection, rest);
                stand(hub, connection, wire, frames);
            } else {
                let reader = Reader::new(&hub, &connection, Side::Accepted);
                stand(hub, connection, wire, reader);
            }
        }
        failed => {
            if let Ok(Err(error)) = failed {
                tracing::debug!(%error, peer = %connection.peer, "accepting a connection failed");
            }
            hub.transports.connections.remove(&connection);
            connection.ended();
        }
    }
}

/// Starts the task that reads from an established connection.
pub(super) fn stand(hub: Rc<Hub>, connection: Rc<Connection>, wire: Rc<Wire>, taker: impl Framer + 'static) {
    hub.service.borrow_mut().connection_opened(connection.id);
    if connection.opened(Rc::clone(&wire)) {
        tokio::task::spawn_local(Rc::clone(&connection).write_rest(Rc::clone(&wire)));
    }
    tokio::task::spawn_local(receive(hub, connection, wire, taker));
}

/// Opens the requested connections, until the task is ended.
pub(in crate::server) async fn open_wanted(
    mut wanted: UnboundedReceiver<Rc<Connection>>,
    hub: Rc<Hub>,
    set: Rc<Set>,
) {
    while let Some(connection) = wanted.recv().await {
        let tls = hub.transports.tls.borrow().client.clone();
        tokio::task::spawn_local(open(Rc::clone(&hub), Rc::clone(&set), connection, tls));
    }
}

/// Opens a connection for the messages already queued on it.
async fn open(hub: Rc<Hub>, set: Rc<Set>, connection: Rc<Connection>, tls: Option<ClientTls>) {
    let (from, name) = {
        let service = hub.service.borrow();
        let named = Flow { domain: connection.domain, ..connection.flow() };
        let name = match connection.domain {
            0 => Some(connection.peer.ip().to_string()),
            _ => service.servers().domain(&named).map(str::to_owned),
        };
        (service.setup().local_address_for(connection.peer.ip()), name)
    };
    let limits = hub.transports.connections.limits.get();
    let connecting =
        || connect(connection.protocol, connection.peer, from, name.clone(), tls.clone(), limits);
    let opened = tokio::time::timeout(OPEN, async {
        match connecting().await {
            // Connections of strangers make way for one that a request needs.
            Err(error) if is_exhausted(&error) && hub.shed_strangers() > 0 => {
                tokio::time::sleep(SHED).await;
                connecting().await
            }
            opened => opened,
        }
    })
    .await;
    let mut clients = connection.take_clients();
    match opened {
        Ok(Ok(Opened::Plain(stream))) => {
            if register(&connection, stream, &set, &hub, &mut clients).await {
                hub.service.borrow_mut().connection_opened(connection.id);
            } else {
                not_opened(&hub, &connection, clients, "epoll can't watch the connection");
            }
        }
        Ok(Ok(Opened::Tls(wire))) => {
            let reader = Reader::new(&hub, &connection, Side::Opened);
            stand(hub, connection, Rc::new(wire), reader);
        }
        Ok(Err(error)) => not_opened(&hub, &connection, clients, &error.to_string()),
        Err(_) => not_opened(&hub, &connection, clients, "time-out"),
    }
}

/// Adds an opened connection to the set, at the second attempt if strangers have to make way. Returns false if that is
/// impossible; nothing was sent then. Requests that are queued meanwhile join `clients`.
async fn register(
    connection: &Rc<Connection>,
    stream: std::net::TcpStream,
    set: &Set,
    hub: &Hub,
    clients: &mut Vec<ClientId>,
) -> bool {
    let mut left = Some(stream);
    for is_last in [false, true] {
        let Some(stream) = left.take() else { return false };
        clients.extend(connection.take_clients());
        connection.accepted(stream);
        let reader = Reader::new(hub, connection, Side::Opened);
        if set.add(Rc::clone(connection), reader, hub).is_none() {
            return true;
        }
        left = connection.opens_again();
        if !is_last {
            tokio::time::sleep(SHED).await;
        }
    }
    false
}

/// Removes a connection that could not be opened, and reports what waited for it: these requests, those that were
/// queued later, and the responses.
fn not_opened(hub: &Rc<Hub>, connection: &Connection, mut clients: Vec<ClientId>, why: &str) {
    tracing::debug!(peer = %connection.peer, why, "connecting failed");
    hub.transports.connections.remove(connection);
    clients.extend(connection.take_clients());
    let unsent = connection.unsent();
    hub.with(|service, now| {
        clients.into_iter().for_each(|client| service.send_failed(now, client));
        let flow = Flow { connection: 0, ..connection.flow() };
        responses(&unsent, service.setup().message_limits())
            .for_each(|response| service.response_failed(now, flow, response));
    });
}

/// The responses among the messages that could not be sent.
fn responses(mut unsent: &[u8], limits: crate::codec::Limits) -> impl Iterator<Item = &[u8]> {
    let mut framer = StreamFramer::new(Side::Opened, limits);
    let messages = std::iter::from_fn(move || {
        let Ok(Cut::Message { len }) = framer.cut(unsent) else { return None };
        let (message, rest) = unsent.split_at_checked(len)?;
        unsent = rest;
        Some(message)
    });
    messages.filter(|message| message.starts_with(b"SIP/2.0 "))
}

/// A connection opened by this server.
enum Opened {
    Plain(std::net::TcpStream),
    Tls(Wire),
}

/// Opens a connection. With TLS, the peer's certificate must be for the domain that led there, or else for
/// its address.
async fn connect(
    protocol: Protocol,
    peer: SocketAddr,
    from: Option<IpAddr>,
    name: Option<String>,
    tls: Option<ClientTls>,
    limits: ConnectionLimits,
) -> io::Result<Opened> {
    let stream = match from {
        None => TcpStream::connect(peer).await?,
        Some(from) => {
            let socket = if from.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            // It is on the link to the peer.
            socket.bind(Address::in_zone(from, Address::of(peer).zone()).with_port(0))?;
            socket.connect(peer).await?
        }
    };
    let _ = stream.set_nodelay(true);
    if let Err(error) = limits.apply(&stream) {
        tracing::debug!(%error, "setting TCP keep-alive failed");
    }
    if protocol != Protocol::Tls {
        return Ok(Opened::Plain(stream.into_std()?));
    }
    let tls = tls.ok_or_else(|| io::Error::other("TLS to other servers needs tls.ca"))?;
    let name = name
        .ok_or_else(|| io::Error::other("the name to verify the certificate against is no longer known"))?;
    let wire = Wire::opened(stream, &tls, &name)?;
    wire.handshake().await?;
    Ok(Opened::Tls(wire))
}

/// Receives until the connection ends. Rarely used state is boxed, so that a waiting connection takes little
/// memory. An explicit `async` block stores its captures once, while an `async fn` stores its arguments
/// twice.
#[allow(clippy::manual_async_fn, reason = "an idle connection takes a fifth less")]
fn receive(
    hub: Rc<Hub>,
    connection: Rc<Connection>,
    wire: Rc<Wire>,
    mut reader: impl Framer + 'static,
) -> impl Future<Output = ()> {
    async move {
        let mut begun = Begun::default();
        let mut stands = reader.begin(&hub).is_ok();
        while stands {
            let (waiting, idle) = (reader.is_waiting(), reader.idle_max());
            let read = std::future::poll_fn(|context| poll_read(&wire, context, &mut reader, &hub));
            // A message must be completed in time, but there is no time limit between messages.
            let now = hub.clock.elapsed();
            let most = match begun.look(now, &connection.life, waiting) {
                Some(since) => Some((since + TIMEOUT).saturating_sub(now)),
                None => idle,
            };
            stands = match most {
                None => read.await,
                Some(most) => match Box::pin(tokio::time::timeout(most, read)).await {
                    Ok(on) => on,
                    Err(_) => !waiting && reader.on_idle(&hub),
                },
            };
            work_between(&hub);
        }
        Box::pin(end(hub, connection, reader)).await;
    }
}

/// Reads into the shared buffer and handles the bytes there. Returns false at the end of the stream.
fn poll_read(wire: &Wire, context: &mut Context<'_>, reader: &mut impl Framer, hub: &Rc<Hub>) -> Poll<bool> {
    with_room(|room| {
        loop {
            if std::task::ready!(wire.poll_read_ready(context)).is_err() {
                return Poll::Ready(false);
            }
            return Poll::Ready(match wire.try_read(room) {
                Ok(0) => false,
                Ok(len) => reader.take(hub, room.get(..len).unwrap_or(&[])).is_ok(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => false,
            });
        }
    })
}

#[cfg(test)]
mod tests;
