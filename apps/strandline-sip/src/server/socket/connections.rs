//! The connections of a shard, and the bytes to be written to them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;

use hashbrown::HashTable;
use strandline_ops::Network;
use strandline_tls::Wire;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::transaction::{ClientId, Flow, Numbers, Protocol, WORKERS_MAX};

use super::PER_SEC_LOG2;
use super::account::{Account, Share};
use super::activity::Activity;
use super::aliases::Aliases;
use super::check_schedule::Watch;
use super::connection_age::Marks;
use super::connection_limits::ConnectionLimits;
use super::websocket::WebSocket;

/// Maximum number of bytes that may wait for one connection; a slower reader is disconnected.
const PENDING_MAX: usize = 1 << 20;

/// Maximum number of spare buffers kept for reuse.
const SPARE_MAX: usize = 256;
/// Maximum size of a spare buffer, in bytes.
const SPARE_BYTES_MAX: usize = 8 << 10;

/// The state of a connection's stream.
#[derive(Debug)]
enum Way {
    /// The stream is being opened. Holds the requests that fail if it can't be.
    Opening(Option<Box<WaitingRequests>>),
    /// The stream has ended.
    Ended,
    /// The stream was accepted, and the handshake of TLS or WebSocket is running.
    Greeting(Rc<Wire>),
    /// The stream was just accepted, and is not registered for events yet.
    Bare(TcpStream),
    /// The stream is in the set that one task reads.
    Watched(TcpStream),
    /// The stream is established, and has a task that reads from it.
    Stands(Rc<Wire>),
}

/// Requests that wait for a connection.
#[derive(Debug, Default)]
struct WaitingRequests(Vec<ClientId>);

/// The outcome of writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// Everything was written, or the stream can't be written to any more.
    All,
    /// There is no room in the socket now.
    Waits,
    /// No room in the socket, and it is not registered yet. Once it is, an event will report room.
    WaitsBare,
}

/// A connection.
pub(in crate::server) struct Connection {
    pub(in crate::server) id: u64,
    pub(in crate::server) protocol: Protocol,
    pub(in crate::server) peer: SocketAddr,
    /// For outgoing connections, the number of the domain that the peer must prove; 0 for its address.
    pub(in crate::server) domain: u32,
    way: RefCell<Way>,
    /// The frame layer of WebSocket connections, once established.
    websocket: RefCell<Option<Box<WebSocket>>>,
    pending: RefCell<Vec<u8>>,
    /// True if the peer opened the connection.
    pub(super) accepted: Cell<bool>,
    /// True if the connection is in the list of those to be written to, or its own task writes.
    busy: Cell<bool>,
    pub(in crate::server) life: Activity,
    share: Share,
}

/// Limits on the number of connections.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::server) struct Room {
    pub(in crate::server) connections: usize,
    /// Maximum number from one source.
    pub(in crate::server) of_source: Option<u32>,
}

/// All connections of a shard.
pub(in crate::server) struct Connections {
    pub(super) by_id: RefCell<HashMap<u64, Rc<Connection>, Numbers>>,
    /// Connection numbers by protocol, peer and domain.
    by_peer: RefCell<HashTable<u64>>,
    /// The hasher is keyed, because peers choose their addresses.
    hasher: RandomState,
    /// The number of connections of each source.
    by_source: RefCell<HashMap<Network, u32>>,
    /// Connections opened by neighbours that may be used for requests to them.
    pub(in crate::server) aliases: RefCell<Aliases>,
    dirty: RefCell<Vec<Rc<Connection>>>,
    /// Empty buffers for reuse.
    spare: RefCell<Vec<Vec<u8>>>,
    next: Cell<u64>,
    /// The difference between consecutive connection numbers.
    step: Cell<u64>,
    /// Sends the connections that are to be opened.
    wanted: UnboundedSender<Rc<Connection>>,
    pub(super) account: Rc<Account>,
    /// The account of incomplete handshakes.
    pub(super) heads: Rc<Account>,
    pub(super) watch: RefCell<Watch>,
    /// The time of the last check, in seconds since the start of the server.
    pub(super) now_secs: Cell<u32>,
    pub(in crate::server) limits: Cell<ConnectionLimits>,
    pub(super) strangers: RefCell<Marks>,
}

impl Connections {
    /// Creates an empty list. Connection numbers never repeat those of an earlier run, because bindings and
    /// flow tokens may still contain them.
    ///
    /// The receiver yields the connections to open.
    pub(in crate::server) fn new(epoch_unix_secs: u64) -> (Self, UnboundedReceiver<Rc<Connection>>) {
        let (wanted, to_open) = unbounded_channel();
        let all = Self {
            by_id: RefCell::default(),
            by_peer: RefCell::new(HashTable::new()),
            hasher: RandomState::new(),
            by_source: RefCell::default(),
            aliases: RefCell::default(),
            dirty: RefCell::default(),
            spare: RefCell::default(),
            next: Cell::new((epoch_unix_secs << PER_SEC_LOG2) + 1),
            step: Cell::new(1),
            wanted,
            account: Rc::default(),
            heads: Rc::default(),
            watch: RefCell::default(),
            now_secs: Cell::default(),
            limits: Cell::default(),
            strangers: RefCell::default(),
        };
        (all, to_open)
    }

    /// Makes new numbers identify this worker, and differ from those of its earlier runs.
    pub(in crate::server) fn number_for(&self, worker: u8, begun_unix_secs: u64) {
        let workers = u64::from(WORKERS_MAX);
        self.next.set((begun_unix_secs << PER_SEC_LOG2) + workers + u64::from(worker));
        self.step.set(workers);
    }

    /// The number of connections.
    pub(in crate::server) fn len(&self) -> usize {
        self.by_id.borrow().len()
    }

    /// The flows of all connections.
    pub(in crate::server) fn flows(&self) -> Vec<Flow> {
        self.by_id.borrow().values().map(|one| one.flow()).collect()
    }

    /// Returns true if this peer may open another connection. This takes a single lookup.
    pub(in crate::server) fn has_room(&self, peer: SocketAddr, room: &Room) -> bool {
        let of_source = || self.by_source.borrow().get(&Network::of(peer.ip())).copied().unwrap_or(0);
        self.len() < room.connections && room.of_source.is_none_or(|max| of_source() < max)
    }

    /// The number of the next connection. All earlier connections have lower numbers.
    pub(super) fn next_number(&self) -> u64 {
        self.next.get()
    }

    /// Allocates a number for a connection or an association.
    pub(in crate::server) fn number(&self) -> u64 {
        self.next.replace(self.next.get() + self.step.get())
    }

    /// Adds an accepted connection.
    pub(in crate::server) fn add(&self, protocol: Protocol, peer: SocketAddr) -> Rc<Connection> {
        let connection = self.add_to(protocol, peer, 0);
        connection.accepted.set(true);
        connection
    }

    fn add_to(&self, protocol: Protocol, peer: SocketAddr, domain: u32) -> Rc<Connection> {
        let connection = Rc::new(Connection {
            id: self.number(),
            protocol,
            peer,
            domain,
            way: RefCell::new(Way::Opening(None)),
            websocket: RefCell::default(),
            pending: RefCell::default(),
            accepted: Cell::new(false),
            busy: Cell::new(false),
            life: Activity::default(),
            share: Share::of(&self.account),
        });
        self.watch.borrow_mut().add(self.now_secs.get(), connection.id);
        self.by_id.borrow_mut().insert(connection.id, Rc::clone(&connection));
        self.note_peer(&connection);
        *self.by_source.borrow_mut().entry(Network::of(peer.ip())).or_default() += 1;
        connection
    }

    /// Removes a connection.
    pub(in crate::server) fn remove(&self, connection: &Connection) {
        if self.by_id.borrow_mut().remove(&connection.id).is_some() {
            let mut by_source = self.by_source.borrow_mut();
            let source = Network::of(connection.peer.ip());
            match by_source.get_mut(&source) {
                Some(count @ 2..) => *count -= 1,
                _ => drop(by_source.remove(&source)),
            }
        }
        self.closes(connection);
    }

    /// Handles a close by the peer: until it is removed, the connection carries only responses to its
    /// requests.
    pub(in crate::server) fn closes(&self, connection: &Connection) {
        if connection.protocol == Protocol::Tls {
            self.aliases.borrow_mut().remove(connection.id);
        }
        let hash = self.hasher.hash_one(connection.key());
        if let Ok(found) = self.by_peer.borrow_mut().find_entry(hash, |id| *id == connection.id) {
            found.remove();
        }
    }

    /// Makes this the connection for messages to its peer.
    fn note_peer(&self, connection: &Connection) {
        let by_id = self.by_id.borrow();
        let key = |id: &u64| by_id.get(id).map(|one| one.key());
        let own = connection.key();
        let hash = self.hasher.hash_one(own);
        let mut by_peer = self.by_peer.borrow_mut();
        match by_peer.find_mut(hash, |id| key(id) == Some(own)) {
            Some(place) => *place = connection.id,
            None => {
                by_peer.insert_unique(hash, connection.id, |id| {
                    key(id).map_or(0, |key| self.hasher.hash_one(key))
                });
            }
        }
    }

    fn to_peer(&self, flow: &Flow) -> Option<u64> {
        let by_id = self.by_id.borrow();
        let key = (flow.protocol, flow.peer, flow.domain);
        let same = |id: &u64| by_id.get(id).is_some_and(|one| one.key() == key);
        self.by_peer.borrow().find(self.hasher.hash_one(key), same).copied()
    }

    fn find(&self, flow: &Flow) -> Option<Rc<Connection>> {
        let id = match flow.connection {
            0 => self.to_peer(flow)?,
            id => id,
        };
        self.by_id.borrow().get(&id).cloned()
    }

    /// Adds an alias: requests to this port of the connection's peer may use the connection.
    pub(in crate::server) fn alias(&self, connection: u64, port: u16) {
        let peer = self.by_id.borrow().get(&connection).map(|found| found.peer);
        if let Some(mut peer) = peer {
            peer.set_port(port);
            self.aliases.borrow_mut().alias(connection, peer);
        }
    }

    /// Closes a connection, so that its reader finds the end. Returns false if it no longer exists.
    pub(in crate::server) fn close(&self, flow: &Flow) -> bool {
        let found = self.find(flow).filter(|_| flow.connection != 0);
        found.is_some_and(|connection| {
            connection.close();
            true
        })
    }

    /// Queues a message on a connection. If the flow names no connection, an existing one to the peer is
    /// used, or a new one is opened. Returns false if the named connection no longer exists.
    pub(in crate::server) fn queue(&self, flow: Flow, client: Option<ClientId>, bytes: &[u8]) -> bool {
        let is_answer = bytes.starts_with(b"SIP/2.0 ");
        let found = self.find(&flow).filter(|connection| {
            // A message to a peer that has closed the connection unnoticed would be lost without an error.
            let gone = !is_answer && connection.has_ended_unseen();
            if gone {
                self.closes(connection);
            }
            !gone
        });
        let connection = match found {
            Some(connection) => connection,
            None if flow.connection == 0 && !flow.protocol.is_websocket() => {
                let connection = self.add_to(flow.protocol, flow.peer, flow.domain);
                if self.wanted.send(Rc::clone(&connection)).is_err() {
                    self.remove(&connection);
                    return false;
                }
                connection
            }
            None => return false,
        };
        let mut pending = connection.pending.borrow_mut();
        if pending.capacity() == 0 {
            *pending = self.spare.borrow_mut().pop().unwrap_or_default();
        }
        if pending.len() + bytes.len() > PENDING_MAX {
            connection.close();
            return false;
        }
        match connection.websocket.borrow_mut().as_mut() {
            Some(websocket) => {
                if !websocket.seal(bytes, &mut pending) {
                    return false;
                }
            }
            None if flow.protocol.is_websocket() => return false,
            None => pending.extend_from_slice(bytes),
        }
        connection.share.set_pending(pending.capacity());
        match &mut *connection.way.borrow_mut() {
            Way::Opening(waiting) => waiting.get_or_insert_default().0.extend(client),
            Way::Greeting(_) => {}
            _ if connection.busy.replace(true) => {}
            _ => self.dirty.borrow_mut().push(Rc::clone(&connection)),
        }
        true
    }

    /// Calls `work` with the frame layer of a connection, and queues the frames that it writes.
    pub(in crate::server) fn with_frames<R>(
        &self,
        connection: &Rc<Connection>,
        work: impl FnOnce(&mut WebSocket, &mut Vec<u8>) -> R,
    ) -> Option<R> {
        let mut websocket = connection.websocket.borrow_mut();
        let mut pending = connection.pending.borrow_mut();
        let result = work(websocket.as_mut()?, &mut pending);
        connection.share.set_pending(pending.capacity());
        if pending.len() > PENDING_MAX {
            connection.close();
        } else if !pending.is_empty() && !connection.busy.replace(true) {
            self.dirty.borrow_mut().push(Rc::clone(connection));
        }
        Some(result)
    }

    /// Keeps a buffer for reuse, which is cheaper than allocating one for each message.
    fn take_back(&self, mut buffer: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_MAX && (1..=SPARE_BYTES_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            spare.push(buffer);
        }
    }

    /// Returns true if any bytes wait to be written.
    pub(in crate::server) fn has_unwritten(&self) -> bool {
        self.by_id.borrow().values().any(|one| one.busy.get() && !matches!(*one.way.borrow(), Way::Ended))
    }

    /// Continues writing to a registered connection that has room again.
    pub(in crate::server) fn has_room_again(&self, connection: &Connection) {
        if !connection.pending.borrow().is_empty() && connection.write() == Written::All {
            connection.busy.set(false);
            self.take_back(connection.unsent());
        }
    }

    /// Writes everything that was queued.
    pub(in crate::server) fn flush(&self) {
        self.keep_to_account();
        loop {
            let Some(connection) = self.dirty.borrow_mut().pop() else { return };
            match connection.write() {
                Written::All => {
                    connection.busy.set(false);
                    self.take_back(connection.unsent());
                }
                Written::Waits => {
                    if let Some(wire) = connection.wire() {
                        tokio::task::spawn_local(connection.write_rest(wire));
                    }
                }
                // See `has_room_again`.
                Written::WaitsBare => {}
            }
        }
    }
}

impl Connection {
    /// The key by which it is found.
    const fn key(&self) -> (Protocol, SocketAddr, u32) {
        (self.protocol, self.peer, self.domain)
    }

    /// Takes the bytes that could not be written.
    pub(in crate::server) fn unsent(&self) -> Vec<u8> {
        self.share.set_pending(0);
        self.pending.take()
    }

    /// Returns true if bytes wait to be written.
    pub(super) fn waits(&self) -> bool {
        !self.pending.borrow().is_empty()
    }

    /// Sets the number of bytes kept of an incomplete message.
    pub(in crate::server) fn keeps(&self, bytes: usize) {
        self.share.set_begun(bytes);
    }

    /// The number of bytes kept for the connection.
    pub(super) fn kept(&self) -> usize {
        self.share.bytes()
    }

    /// The flow over this connection.
    pub(in crate::server) fn flow(&self) -> Flow {
        Flow { connection: self.id, ..Flow::to(self.protocol, self.peer) }
    }

    /// Writes without blocking. If nothing is left, the caller frees the buffer: idle connections hold none.
    fn write(&self) -> Written {
        let wire = match &*self.way.borrow() {
            Way::Opening(_) | Way::Greeting(_) | Way::Ended => return Written::All,
            Way::Bare(stream) | Way::Watched(stream) => {
                return self.write_by(|bytes| (&*stream).write(bytes), Written::WaitsBare);
            }
            Way::Stands(wire) => Rc::clone(wire),
        };
        self.write_to(&wire)
    }

    fn write_to(&self, wire: &Wire) -> Written {
        match self.write_by(|bytes| wire.try_write(bytes), Written::Waits) {
            Written::All => {}
            waits => return waits,
        }
        match wire.try_flush() {
            Ok(true) => Written::All,
            Ok(false) => Written::Waits,
            Err(_) => {
                self.close();
                Written::All
            }
        }
    }

    fn write_by(&self, mut write: impl FnMut(&[u8]) -> io::Result<usize>, waits: Written) -> Written {
        let mut pending = self.pending.borrow_mut();
        let mut written = 0;
        while let Some(rest) = pending.get(written..).filter(|rest| !rest.is_empty()) {
            match write(rest) {
                Ok(0) => break,
                Ok(len) => {
                    written += len;
                    self.life.on_written();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    pending.drain(..written);
                    return waits;
                }
                Err(_) => {
                    self.close();
                    break;
                }
            }
        }
        pending.clear();
        Written::All
    }

    fn wire(&self) -> Option<Rc<Wire>> {
        match &*self.way.borrow() {
            Way::Stands(wire) => Some(Rc::clone(wire)),
            _ => None,
        }
    }

    /// Writes the rest, waiting for room, even after the close: final messages, such as the reason, must
    /// arrive.
    pub(in crate::server) async fn write_rest(self: Rc<Self>, wire: Rc<Wire>) {
        while self.write_to(&wire) != Written::All {
            if wire.tcp().writable().await.is_err() {
                break;
            }
        }
        self.unsent();
        self.busy.set(false);
    }

    /// Closes the connection, so that its reader finds the end.
    pub(super) fn close(&self) {
        // An error means that it is closed already.
        let _ = match &*self.way.borrow() {
            Way::Opening(_) | Way::Ended => Ok(()),
            Way::Bare(stream) | Way::Watched(stream) => stream.shutdown(std::net::Shutdown::Both),
            Way::Greeting(wire) | Way::Stands(wire) => {
                socket2::SockRef::from(wire.tcp()).shutdown(std::net::Shutdown::Both)
            }
        };
    }

    /// Closes the connection and drops the bytes to be written.
    pub(super) fn give_up(&self) {
        self.unsent();
        self.close();
    }

    /// Sets the state of an accepted connection before the handshake of TLS or WebSocket.
    pub(in crate::server) fn greeting(&self, wire: Rc<Wire>) {
        self.way.replace(Way::Greeting(wire));
    }

    /// Sets the state of an accepted connection that is not registered yet.
    pub(in crate::server) fn accepted(&self, stream: TcpStream) {
        self.way.replace(Way::Bare(stream));
    }

    /// Takes back the stream of a connection that could not be registered. Messages wait again until it is opened.
    pub(in crate::server) fn opens_again(&self) -> Option<TcpStream> {
        let Way::Bare(stream) = self.way.replace(Way::Opening(None)) else { return None };
        Some(stream)
    }

    /// Reads from a connection that has no task of its own.
    pub(in crate::server) fn read_bare(&self, room: &mut [u8]) -> io::Result<usize> {
        match &*self.way.borrow() {
            Way::Bare(stream) | Way::Watched(stream) => io::Read::read(&mut &*stream, room),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Returns true if the peer has closed the connection and that was not read yet.
    fn has_ended_unseen(&self) -> bool {
        match &*self.way.borrow() {
            Way::Bare(stream) | Way::Watched(stream) => matches!(stream.peek(&mut [0]), Ok(0)),
            _ => false,
        }
    }

    /// Registers a connection with `watch`. If that fails, the connection stays as it was.
    pub(in crate::server) fn watched<E>(
        &self,
        watch: impl FnOnce(&TcpStream) -> Result<(), E>,
    ) -> Result<(), E> {
        let way = &mut *self.way.borrow_mut();
        match std::mem::replace(way, Way::Ended) {
            Way::Bare(stream) => {
                let watched = watch(&stream);
                *way = if watched.is_ok() { Way::Watched(stream) } else { Way::Bare(stream) };
                watched
            }
            other => {
                *way = other;
                Ok(())
            }
        }
    }

    /// Takes the requests that wait for the connection to open.
    pub(in crate::server) fn take_clients(&self) -> Vec<ClientId> {
        match &mut *self.way.borrow_mut() {
            Way::Opening(waiting) => waiting.take().unwrap_or_default().0,
            _ => Vec::new(),
        }
    }

    /// Marks the connection as ended. Any task that still holds it finds it closed.
    pub(in crate::server) fn ended(&self) {
        self.way.replace(Way::Ended);
    }

    /// Adds the frame layer.
    pub(in crate::server) fn carry_frames(&self, websocket: WebSocket) {
        self.websocket.replace(Some(Box::new(websocket)));
    }

    /// Marks the stream as established. Returns true if something must be written by
    /// [`write_rest`](Self::write_rest): queued messages, or the end of the TLS handshake.
    pub(in crate::server) fn opened(&self, wire: Rc<Wire>) -> bool {
        self.way.replace(Way::Stands(wire));
        let waits = self.protocol.is_secure() || !self.pending.borrow().is_empty();
        self.busy.set(waits);
        waits
    }
}

#[cfg(test)]
mod tests;
