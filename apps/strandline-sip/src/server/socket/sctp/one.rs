//! A socket for each association (one-to-one style).

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use strandline::{Address, Association, Listener, Stack, TrySendError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::server::socket::Connections;
use crate::transaction::{ClientId, Flow, Protocol};

use super::strangers::Strangers;
use super::{Failed, REFUSED, TAKEN_AWAY, Unsent, Waiting, report, unordered};

/// Yields the peers of associations set up by this server, so that they are received from.
pub(in crate::server) type Opened = UnboundedReceiver<SocketAddr>;

/// The listening socket and the associations.
pub(in crate::server) struct One {
    pub(in crate::server) listener: Listener,
    stack: Stack,
    associations: RefCell<HashMap<u64, Rc<Association>>>,
    by_peer: RefCell<HashMap<SocketAddr, u64>>,
    /// Associations that this server is setting up, with the messages that wait for them.
    begun: RefCell<HashMap<SocketAddr, Begun>>,
    /// Sends the peers of associations that were begun.
    wanted: UnboundedSender<SocketAddr>,
    strangers: Strangers,
    waiting: Waiting,
    failed: UnboundedSender<Unsent>,
}

/// An association that this server is setting up.
struct Begun {
    association: Rc<Association>,
    unsent: Vec<Unsent>,
}

impl One {
    /// Creates the socket state. The receivers yield associations that were begun, and messages that could
    /// not be sent.
    pub(in crate::server) fn new(stack: Stack, listener: Listener) -> (Self, Opened, Failed) {
        let (failed, unsent) = unbounded_channel();
        let (wanted, opened) = unbounded_channel();
        let one = Self {
            listener,
            stack,
            associations: RefCell::default(),
            by_peer: RefCell::default(),
            begun: RefCell::default(),
            wanted,
            strangers: Strangers::default(),
            waiting: Waiting::default(),
            failed,
        };
        (one, opened, unsent)
    }

    pub(super) fn has(&self, connection: u64) -> bool {
        self.associations.borrow().contains_key(&connection)
    }

    pub(in crate::server) fn len(&self) -> usize {
        self.associations.borrow().len()
    }

    pub(super) fn flows(&self) -> Vec<Flow> {
        let flow = |(connection, association): (&u64, &Rc<Association>)| {
            let peer = association.status()?.primary;
            Some(Flow { connection: *connection, ..Flow::to(Protocol::Sctp, peer) })
        };
        self.associations.borrow().iter().filter_map(flow).collect()
    }

    /// Adds an established association and returns its flow; `None` if it has ended already.
    pub(in crate::server) fn add(
        &self,
        connections: &Connections,
        association: &Rc<Association>,
    ) -> Option<Flow> {
        let status = association.status()?;
        let mut peer = status.primary;
        peer.set_port(status.peer_port);
        let flow = Flow { connection: connections.number(), ..Flow::to(Protocol::Sctp, peer) };
        self.associations.borrow_mut().insert(flow.connection, Rc::clone(association));
        self.by_peer.borrow_mut().insert(peer, flow.connection);
        Some(flow)
    }

    /// Records that a peer has set up the association. It makes way if there are too many.
    pub(in crate::server) fn is_of_stranger(&self, flow: &Flow) {
        self.strangers.add(flow.connection);
    }

    /// Records that a SIP message has arrived.
    pub(in crate::server) fn on_message(&self, connections: &Connections, flow: &Flow) {
        self.strangers.on_message(flow.connection, connections.now_secs.get());
    }

    /// Closes the association of a stranger whose number is lower than `below`. Returns whether there was
    /// one.
    pub(in crate::server) fn shed(&self, below: u64, is_identified: impl Fn(u64) -> bool) -> bool {
        let stranger = self.strangers.take(below, is_identified);
        let found = stranger.and_then(|stranger| self.associations.borrow_mut().remove(&stranger));
        // The task that receives from it finds the end.
        found.is_some_and(|association| {
            association.abort(REFUSED);
            true
        })
    }

    /// Removes an association that has ended.
    pub(in crate::server) fn remove(&self, flow: &Flow) {
        self.strangers.remove(flow.connection);
        self.associations.borrow_mut().remove(&flow.connection);
        let mut by_peer = self.by_peer.borrow_mut();
        if by_peer.get(&flow.peer) == Some(&flow.connection) {
            by_peer.remove(&flow.peer);
        }
    }

    /// Completes setting up an association with this peer, which has succeeded if `stands` is set.
    pub(in crate::server) fn has_begun(&self, peer: SocketAddr, stands: bool) {
        let begun = self.begun.borrow_mut().remove(&peer);
        if let Some(begun) = begun.filter(|_| !stands) {
            report(&self.failed, begun.unsent);
        }
    }

    /// The association with a peer, while it is being set up.
    pub(in crate::server) fn is_begun(&self, peer: SocketAddr) -> Option<Rc<Association>> {
        self.begun.borrow().get(&peer).map(|begun| Rc::clone(&begun.association))
    }

    fn find(&self, flow: &Flow) -> Option<Rc<Association>> {
        let connection = match flow.connection {
            0 => self.by_peer.borrow().get(&flow.peer).copied(),
            connection => Some(connection),
        };
        let found = connection.and_then(|connection| self.associations.borrow().get(&connection).cloned());
        match flow.connection {
            0 => found.or_else(|| self.is_begun(flow.peer)).or_else(|| self.begin(flow.peer)),
            _ => found,
        }
    }

    /// Begins to set up an association. Messages sent meanwhile go with the COOKIE ECHO.
    fn begin(&self, peer: SocketAddr) -> Option<Rc<Association>> {
        match Association::start(&self.stack, (Address::of(peer), peer.port()), 0, None) {
            Ok(association) => {
                let association = Rc::new(association);
                let begun = Begun { association: Rc::clone(&association), unsent: Vec::new() };
                self.begun.borrow_mut().insert(peer, begun);
                // Nothing receives it when the server ends.
                self.wanted.send(peer).ok()?;
                Some(association)
            }
            Err(error) => {
                tracing::debug!(%error, %peer, "setting up an association failed");
                None
            }
        }
    }

    pub(super) fn close(&self, flow: &Flow) -> bool {
        let found = self.associations.borrow().get(&flow.connection).cloned();
        found.is_some_and(|association| {
            association.abort(TAKEN_AWAY);
            true
        })
    }

    pub(super) fn send(self: &Rc<Self>, flow: Flow, client: Option<ClientId>, data: Bytes) -> bool {
        let Some(association) = self.find(&flow) else { return false };
        if flow.connection == 0
            && let Some(begun) = self.begun.borrow_mut().get_mut(&flow.peer)
        {
            begun.unsent.push(Unsent::new(flow, client, &data));
        }
        let (connection, len) = (flow.connection, data.len());
        match association.try_send_bytes(data.clone(), unordered()) {
            Ok(()) => true,
            Err(TrySendError::Full) if self.waiting.add(connection, len) => {
                let one = Rc::clone(self);
                tokio::task::spawn_local(async move {
                    if let Err(error) = association.send_bytes(data, unordered()).await {
                        tracing::debug!(%error, "sending over SCTP failed");
                    }
                    one.waiting.remove(connection, len);
                });
                true
            }
            Err(TrySendError::Full) => false,
            Err(error) => {
                tracing::debug!(%error, "sending over SCTP failed");
                false
            }
        }
    }
}
