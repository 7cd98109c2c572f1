//! Connections of a shard: what is to be written to them, and which there are.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;

use hashbrown::HashTable;
use strandline_tls::Wire;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::server::sources::network;
use crate::transaction::{ClientId, Flow, Numbers, Protocol, WORKERS_MAX};

use super::account::{Account, Share};
use super::aliases::Aliases;
use super::due::Watch;
use super::life::Life;
use super::marks::Marks;
use super::patience::Patience;
use super::websocket::WebSocket;

/// Bytes that may wait to be written to one connection: who reads more slowly is cut off.
const PENDING_MAX: usize = 1 << 20;

/// Buffers that are kept for those to come, and how large they may be.
const SPARE_MAX: usize = 256;
const SPARE_BYTES_MAX: usize = 8 << 10;

/// How a connection is read and written.
#[derive(Debug)]
enum Way {
    /// It is being opened, with the requests that fail if it can't be.
    Opening(Option<Box<Asked>>),
    /// It has ended.
    Ended,
    /// It was accepted, and TLS or WebSocket is shaking hands.
    Greeting(Rc<Wire>),
    /// It was accepted a moment ago, and no task waits for it yet.
    Bare(TcpStream),
    /// It is in the set that one task reads.
    Watched(TcpStream),
    /// A task of its own reads from it.
    Stands(Rc<Wire>),
}

/// Requests that wait for a connection.
#[derive(Debug, Default)]
struct Asked(Vec<ClientId>);

/// What became of what was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// Nothing is left, or nothing will ever go.
    All,
    /// There is no room now.
    Waits,
    /// The same, and who watches it hears of room; if nobody does yet, who is about to.
    WaitsBare,
}

/// A connection.
pub(in crate::server) struct Connection {
    pub(in crate::server) id: u64,
    pub(in crate::server) protocol: Protocol,
    pub(in crate::server) peer: SocketAddr,
    /// Of one that is opened: the domain that the peer has to prove, by its number; 0 for its address.
    pub(in crate::server) domain: u32,
    way: RefCell<Way>,
    /// Of those that carry frames, once they may.
    websocket: RefCell<Option<Box<WebSocket>>>,
    pending: RefCell<Vec<u8>>,
    /// Who is there asked for it.
    pub(super) accepted: Cell<bool>,
    /// It is in the list of those to be written to, or its own task writes.
    busy: Cell<bool>,
    pub(in crate::server) life: Life,
    share: Share,
}

/// How many connections there may be.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::server) struct Room {
    pub(in crate::server) connections: usize,
    /// From one source.
    pub(in crate::server) of_source: Option<u32>,
}

/// All connections of a shard.
pub(in crate::server) struct Connections {
    pub(super) by_id: RefCell<HashMap<u64, Rc<Connection>, Numbers>>,
    /// Numbers, by protocol, peer and domain.
    by_peer: RefCell<HashTable<u64>>,
    /// Peers choose their addresses: their hashes have a key.
    hasher: RandomState,
    /// How many each source has: no more sources than connections.
    by_source: RefCell<HashMap<u64, u32>>,
    /// Those that neighbours opened, for requests to them.
    pub(in crate::server) aliases: RefCell<Aliases>,
    dirty: RefCell<Vec<Rc<Connection>>>,
    /// Empty buffers.
    spare: RefCell<Vec<Vec<u8>>>,
    next: Cell<u64>,
    /// From one number to the next.
    step: Cell<u64>,
    /// Takes those that are to be opened.
    wanted: UnboundedSender<Rc<Connection>>,
    pub(super) account: Rc<Account>,
    /// What is kept of handshakes that aren't whole.
    pub(super) heads: Rc<Account>,
    pub(super) watch: RefCell<Watch>,
    /// Since the start of the server, at the last look.
    pub(super) now_secs: Cell<u32>,
    pub(in crate::server) patience: Cell<Patience>,
    pub(super) strangers: RefCell<Marks>,
}

impl Connections {
    /// Numbers are never those of an earlier run: bindings and flow tokens may still name them.
    ///
    /// Those that the receiver gives are to be opened.
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
            next: Cell::new((epoch_unix_secs << 28) + 1),
            step: Cell::new(1),
            wanted,
            account: Rc::default(),
            heads: Rc::default(),
            watch: RefCell::default(),
            now_secs: Cell::default(),
            patience: Cell::default(),
            strangers: RefCell::default(),
        };
        (all, to_open)
    }

    /// From now on numbers say that they are this worker's, and are none of its earlier runs, which began in earlier seconds.
    pub(in crate::server) fn number_for(&self, worker: u8, begun_unix_secs: u64) {
        let workers = u64::from(WORKERS_MAX);
        self.next.set((begun_unix_secs << 28) + workers + u64::from(worker));
        self.step.set(workers);
    }

    /// How many there are.
    pub(in crate::server) fn len(&self) -> usize {
        self.by_id.borrow().len()
    }

    /// The ways over all of them.
    pub(in crate::server) fn flows(&self) -> Vec<Flow> {
        self.by_id.borrow().values().map(|one| one.flow()).collect()
    }

    /// May this peer have another one? That takes one look-up, however many there are.
    pub(in crate::server) fn has_room(&self, peer: SocketAddr, room: &Room) -> bool {
        let of_source = || self.by_source.borrow().get(&network(peer.ip())).copied().unwrap_or(0);
        self.len() < room.connections && room.of_source.is_none_or(|max| of_source() < max)
    }

    /// The number that the next connection gets: those of all earlier ones are smaller.
    pub(super) fn next_number(&self) -> u64 {
        self.next.get()
    }

    /// A number for a connection or an association.
    pub(in crate::server) fn number(&self) -> u64 {
        self.next.replace(self.next.get() + self.step.get())
    }

    /// A new connection, which nothing goes over yet.
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
            life: Life::default(),
            share: Share::of(&self.account),
        });
        self.watch.borrow_mut().add(self.now_secs.get(), connection.id);
        self.by_id.borrow_mut().insert(connection.id, Rc::clone(&connection));
        self.note_peer(&connection);
        *self.by_source.borrow_mut().entry(network(peer.ip())).or_default() += 1;
        connection
    }

    /// It is gone.
    pub(in crate::server) fn remove(&self, connection: &Connection) {
        if self.by_id.borrow_mut().remove(&connection.id).is_some() {
            let mut by_source = self.by_source.borrow_mut();
            let source = network(connection.peer.ip());
            match by_source.get_mut(&source) {
                Some(count @ 2..) => *count -= 1,
                _ => {
                    by_source.remove(&source);
                }
            }
        }
        self.closes(connection);
    }

    /// Its peer has ended it: it is for answers only to what came over it, until it is removed. Others to the peer get another one.
    pub(in crate::server) fn closes(&self, connection: &Connection) {
        if connection.protocol == Protocol::Tls {
            self.aliases.borrow_mut().remove(connection.id);
        }
        let hash = self.hasher.hash_one(connection.key());
        if let Ok(found) = self.by_peer.borrow_mut().find_entry(hash, |id| *id == connection.id) {
            found.remove();
        }
    }

    /// From now on it is the one to its peer.
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

    /// Requests to a port of a connection's peer may go over it.
    pub(in crate::server) fn alias(&self, connection: u64, port: u16) {
        let peer = self.by_id.borrow().get(&connection).map(|found| found.peer);
        if let Some(mut peer) = peer {
            peer.set_port(port);
            self.aliases.borrow_mut().alias(connection, peer);
        }
    }

    /// Ends a connection: whoever reads from it finds the end. False if it is gone already.
    pub(in crate::server) fn close(&self, flow: &Flow) -> bool {
        let found = self.find(flow).filter(|_| flow.connection != 0);
        found.is_some_and(|connection| {
            connection.close();
            true
        })
    }

    /// Queues a message on a connection, which is opened if none is asked for and none is there. False if it is gone.
    pub(in crate::server) fn queue(&self, flow: Flow, client: Option<ClientId>, bytes: &[u8]) -> bool {
        let is_answer = bytes.starts_with(b"SIP/2.0 ");
        let found = self.find(&flow).filter(|connection| {
            // What goes to a peer that has gone, which nobody has seen yet, would be lost without a sign.
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
            Way::Opening(asked) => asked.get_or_insert_default().0.extend(client),
            Way::Greeting(_) => {}
            _ if connection.busy.replace(true) => {}
            _ => self.dirty.borrow_mut().push(Rc::clone(&connection)),
        }
        true
    }

    /// Lets something be done with the frames of a connection, and queues what comes of it.
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

    /// A buffer that isn't needed any more is used for another connection: to ask the heap for one for each message would cost
    /// more.
    fn take_back(&self, mut buffer: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_MAX && (1..=SPARE_BYTES_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            spare.push(buffer);
        }
    }

    /// Something waits to be written.
    pub(in crate::server) fn has_unwritten(&self) -> bool {
        self.by_id.borrow().values().any(|one| one.busy.get() && !one.is_over())
    }

    /// There is room again on one that is watched: what waits for it is written.
    pub(in crate::server) fn has_room_again(&self, connection: &Connection) {
        if !connection.pending.borrow().is_empty() && connection.write() == Written::All {
            connection.busy.set(false);
            self.take_back(connection.unsent());
        }
    }

    /// Writes what was queued.
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
    /// What it can be found by.
    const fn key(&self) -> (Protocol, SocketAddr, u32) {
        (self.protocol, self.peer, self.domain)
    }

    /// What was to be written, and won't be any more.
    pub(in crate::server) fn unsent(&self) -> Vec<u8> {
        self.share.set_pending(0);
        self.pending.take()
    }

    /// Something waits to be written.
    pub(super) fn waits(&self) -> bool {
        !self.pending.borrow().is_empty()
    }

    /// So much is kept of a message that isn't whole.
    pub(in crate::server) fn keeps(&self, bytes: usize) {
        self.share.set_begun(bytes);
    }

    /// What is kept for it, bytes.
    pub(super) fn kept(&self) -> usize {
        self.share.bytes()
    }

    /// The way over it.
    pub(in crate::server) fn flow(&self) -> Flow {
        Flow { connection: self.id, ..Flow::to(self.protocol, self.peer) }
    }

    /// Writes as much as goes without waiting. If nothing is left the buffer is to be taken away, for an idle connection keeps
    /// none.
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

    /// Nothing will ever go over it.
    fn is_over(&self) -> bool {
        matches!(*self.way.borrow(), Way::Ended)
    }

    fn wire(&self) -> Option<Rc<Wire>> {
        match &*self.way.borrow() {
            Way::Stands(wire) => Some(Rc::clone(wire)),
            _ => None,
        }
    }

    /// Writes what didn't go at once, waiting for room; also if the connection has ended meanwhile: what was said last, such as
    /// why it ends, is to arrive.
    pub(in crate::server) async fn write_rest(self: Rc<Self>, wire: Rc<Wire>) {
        while self.write_to(&wire) != Written::All {
            if wire.tcp().writable().await.is_err() {
                break;
            }
        }
        self.unsent();
        self.busy.set(false);
    }

    /// Ends it: whoever reads from it finds the end.
    pub(super) fn close(&self) {
        // If it has ended already, that is what was wanted.
        let _ = match &*self.way.borrow() {
            Way::Opening(_) | Way::Ended => Ok(()),
            Way::Bare(stream) | Way::Watched(stream) => stream.shutdown(std::net::Shutdown::Both),
            Way::Greeting(wire) | Way::Stands(wire) => {
                socket2::SockRef::from(wire.tcp()).shutdown(std::net::Shutdown::Both)
            }
        };
    }

    /// Ends it, and forgets what was to be written.
    pub(super) fn give_up(&self) {
        self.unsent();
        self.close();
    }

    /// It was accepted, and TLS or WebSocket is about to shake hands over it.
    pub(in crate::server) fn greeting(&self, wire: Rc<Wire>) {
        self.way.replace(Way::Greeting(wire));
    }

    /// It was accepted, and nobody waits for it yet.
    pub(in crate::server) fn accepted(&self, stream: TcpStream) {
        self.way.replace(Way::Bare(stream));
    }

    /// Reads what is there, of one that has no task of its own.
    pub(in crate::server) fn read_bare(&self, room: &mut [u8]) -> io::Result<usize> {
        match &*self.way.borrow() {
            Way::Bare(stream) | Way::Watched(stream) => io::Read::read(&mut &*stream, room),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Its peer has closed it, and that hasn't been read.
    fn has_ended_unseen(&self) -> bool {
        match &*self.way.borrow() {
            Way::Bare(stream) | Way::Watched(stream) => matches!(stream.peek(&mut [0]), Ok(0)),
            _ => false,
        }
    }

    /// From now on one that nobody waited for is watched.
    pub(in crate::server) fn watched<E>(
        &self,
        watch: impl FnOnce(&TcpStream) -> Result<(), E>,
    ) -> Result<(), E> {
        let way = &mut *self.way.borrow_mut();
        match std::mem::replace(way, Way::Ended) {
            Way::Bare(stream) => {
                let watched = watch(&stream);
                *way = Way::Watched(stream);
                watched
            }
            other => {
                *way = other;
                Ok(())
            }
        }
    }

    /// Opening it is over: who asked for it, of those who wait for an answer.
    pub(in crate::server) fn take_clients(&self) -> Vec<ClientId> {
        match &mut *self.way.borrow_mut() {
            Way::Opening(asked) => asked.take().unwrap_or_default().0,
            _ => Vec::new(),
        }
    }

    /// Nothing goes over it any more. Who still holds it, such as a task that writes, finds it closed.
    pub(in crate::server) fn ended(&self) {
        self.way.replace(Way::Ended);
    }

    /// From now on it carries frames.
    pub(in crate::server) fn carry_frames(&self, websocket: WebSocket) {
        self.websocket.replace(Some(Box::new(websocket)));
    }

    /// The stream is open. True if something is left to be written by [`write_rest`](Self::write_rest): what was queued
    /// meanwhile, or the end of TLS's handshake.
    pub(in crate::server) fn opened(&self, wire: Rc<Wire>) -> bool {
        self.way.replace(Way::Stands(wire));
        let waits = self.protocol.is_secure() || !self.pending.borrow().is_empty();
        self.busy.set(waits);
        waits
    }
}

#[cfg(test)]
mod tests;
