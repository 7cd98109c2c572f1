//! UDP flows over an association. A stream opens a flow and ends it. Datagrams are messages of stream 0,
//! which is not a dynamic one: unordered, and given up after a lifetime, so that a late one delays no other.
//! Each begins with the token of its flow.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use strandline::{Association, Joiner, Message, RecvError, Reliability, SendInfo, StreamId};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::client_socket::ClientSocket;
use crate::peer_rate::Direction;
use crate::registry::Entry;

/// The stream of all datagrams.
const STREAM: StreamId = StreamId(0);
/// Largest datagram, with its token.
const DATAGRAM_MAX: usize = 64 << 10;
/// Bytes of datagrams of which parts are missing.
const INCOMPLETE_MAX: usize = 1 << 20;

/// The flows of an association: where their datagrams go.
#[derive(Debug, Default)]
pub(crate) struct Flows(Mutex<HashMap<u32, Target>>);

/// Where the datagrams of a flow go.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) way: Way,
    pub(crate) entry: Arc<Entry>,
}

/// The socket by which the datagrams of a flow go.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    /// One that is connected to the server.
    Server(Arc<UdpSocket>),
    /// One to which the client has sent.
    Client(Arc<ClientSocket>, SocketAddr),
}

/// A flow that gets datagrams until this value is dropped.
#[derive(Debug)]
pub(crate) struct FlowGuard {
    flows: Arc<Flows>,
    token: u32,
}

impl Flows {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Target>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a flow; `None` if its token is in use.
    pub(crate) fn add(self: &Arc<Self>, token: u32, target: Target) -> Option<FlowGuard> {
        let mut flows = self.lock();
        if flows.contains_key(&token) {
            return None;
        }
        flows.insert(token, target);
        Some(FlowGuard { flows: Arc::clone(self), token })
    }

    /// Sends a datagram to where its flow goes, if there is room for it.
    fn deliver(&self, mut message: Bytes) {
        let Ok(token) = message.try_get_u32() else { return };
        let Some(target) = self.lock().get(&token).cloned() else { return };
        target.deliver(&message);
    }

    /// Takes the next part of a datagram, and delivers the datagram if it is complete. One that can't be joined is
    /// lost, as datagrams may be, and no other with it.
    fn take(&self, joiner: &mut Joiner, part: Message) {
        if let Ok(Some(message)) = joiner.push(part) {
            self.deliver(message.data);
        }
    }

    /// Delivers the datagrams of an association until it ends.
    pub(crate) async fn receive(&self, association: &Association) {
        let mut joiner = Joiner::new(INCOMPLETE_MAX);
        loop {
            match association.recv().await {
                Ok(Some(part)) => self.take(&mut joiner, part),
                Err(RecvError::Abandoned) => joiner.clear(),
                _ => return,
            }
        }
    }
}

impl Drop for FlowGuard {
    fn drop(&mut self) {
        self.flows.lock().remove(&self.token);
    }
}

impl Target {
    /// Sends a datagram. One for which the socket has no room, or beyond the peer's limit, is lost.
    pub(crate) fn deliver(&self, datagram: &[u8]) {
        if !self.entry.admits(Direction::Received, datagram.len()) {
            return;
        }
        let is_sent = match &self.way {
            Way::Server(socket) => socket.try_send(datagram).is_ok(),
            Way::Client(socket, client) => socket.try_send_to(datagram, *client),
        };
        if is_sent {
            self.entry.add_received(datagram.len());
        }
    }
}

/// Sends a datagram of a flow to the peer. One for which the association has no room, or beyond the peer's
/// limit, is lost.
pub(crate) fn send(
    association: &Association,
    token: u32,
    datagram: &[u8],
    lifetime: Duration,
    entry: &Entry,
) {
    if !entry.admits(Direction::Sent, datagram.len()) {
        return;
    }
    let mut message = BytesMut::with_capacity(4 + datagram.len());
    message.put_u32(token);
    message.put_slice(datagram);
    let info = SendInfo::on(STREAM).unordered().reliability(Reliability::lifetime(lifetime));
    if association.try_send_bytes(message.freeze(), info).is_ok() {
        entry.add_sent(datagram.len());
    }
}

/// Receives a datagram of a server, and returns its length; `None` once something else has shut the socket down.
pub(crate) async fn receive(socket: &UdpSocket, room: &mut [u8]) -> Option<usize> {
    loop {
        if socket.ready(Interest::READABLE).await.ok()?.is_read_closed() {
            return None;
        }
        match socket.try_recv(room) {
            Ok(len) => return Some(len),
            // It is not connected any more.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => return None,
            // Errors are those of earlier datagrams: nobody has received them.
            Err(_) => {}
        }
    }
}

/// Returns a buffer for any datagram.
pub(crate) fn buffer() -> Vec<u8> {
    vec![0; DATAGRAM_MAX]
}

/// Waits until nothing has passed in either direction for this time, or twice of it.
pub(crate) async fn idle(entry: &Entry, limit: Duration) {
    let mut before = entry.total();
    loop {
        tokio::time::sleep(limit).await;
        let now = entry.total();
        if now == before {
            return;
        }
        before = now;
    }
}

#[cfg(test)]
mod tests;
