//! One socket for all associations (one-to-many style).

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use strandline::{Address, AssociationId, Endpoint};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::server::socket::{Connections, FIRST};
use crate::transaction::{ClientId, Flow, Numbers, Protocol};

use super::strangers::Strangers;
use super::{Failed, REFUSED, TAKEN_AWAY, Unsent, Waiting, report, unordered};

/// The state of an association.
#[derive(Debug, Clone, Copy)]
struct Known {
    flow: Flow,
    /// Number of messages received, as far as they count as the first ones.
    received: u8,
}

/// The result of looking up an association.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct Met {
    pub(in crate::server) flow: Flow,
    /// True if the association was unknown before.
    pub(in crate::server) is_new: bool,
    /// True if the next message counts as one of the first.
    pub(in crate::server) is_first: bool,
}

/// The one-to-many socket, and the flows of its associations.
pub(in crate::server) struct Many {
    pub(in crate::server) endpoint: Endpoint,
    flows: RefCell<HashMap<AssociationId, Known>>,
    ids: RefCell<HashMap<u64, AssociationId, Numbers>>,
    strangers: Strangers,
    /// Established associations that this server has set up.
    own: RefCell<HashSet<AssociationId>>,
    waiting: Waiting,
    /// Messages sent to peers whose association is being set up.
    begun: RefCell<HashMap<AssociationId, Vec<Unsent>>>,
    failed: UnboundedSender<Unsent>,
}

impl Many {
    /// Creates the socket state. The receiver yields messages that could not be sent.
    pub(in crate::server) fn new(endpoint: Endpoint) -> (Self, Failed) {
        let (failed, unsent) = unbounded_channel();
        let many = Self {
            endpoint,
            flows: RefCell::default(),
            ids: RefCell::default(),
            strangers: Strangers::default(),
            own: RefCell::default(),
            waiting: Waiting::default(),
            begun: RefCell::default(),
            failed,
        };
        (many, unsent)
    }

    /// Records that an association set up by this server is established.
    pub(in crate::server) fn stands(&self, id: AssociationId) {
        self.own.borrow_mut().insert(id);
        self.begun.borrow_mut().remove(&id);
    }

    pub(super) fn has(&self, connection: u64) -> bool {
        self.ids.borrow().contains_key(&connection)
    }

    pub(in crate::server) fn len(&self) -> usize {
        self.flows.borrow().len()
    }

    pub(super) fn flows(&self) -> Vec<Flow> {
        self.flows.borrow().values().map(|known| known.flow).collect()
    }

    /// The flow of an association that is established, or over which a SIP `message` has arrived.
    pub(in crate::server) fn meet(
        &self,
        connections: &Connections,
        id: AssociationId,
        message: bool,
    ) -> Option<Met> {
        if let Some(known) = self.flows.borrow_mut().get_mut(&id) {
            let is_first = known.received < FIRST;
            if message {
                self.strangers.on_message(known.flow.connection, connections.now_secs.get());
            }
            known.received = known.received.saturating_add(u8::from(message));
            return Some(Met { flow: known.flow, is_new: false, is_first });
        }
        let status = self.endpoint.control(id).ok()?.status()?;
        let mut peer = status.primary;
        peer.set_port(status.peer_port);
        let flow = Flow { connection: connections.number(), ..Flow::to(Protocol::Sctp, peer) };
        self.flows.borrow_mut().insert(id, Known { flow, received: u8::from(message) });
        self.ids.borrow_mut().insert(flow.connection, id);
        if !self.own.borrow().contains(&id) && !self.begun.borrow().contains_key(&id) {
            self.strangers.add(flow.connection);
        }
        if message {
            self.strangers.on_message(flow.connection, connections.now_secs.get());
        }
        Some(Met { flow, is_new: true, is_first: true })
    }

    /// Closes the association of a stranger whose number is lower than `below`. Returns its number.
    pub(in crate::server) fn shed(&self, below: u64, is_identified: impl Fn(u64) -> bool) -> Option<u64> {
        let stranger = self.strangers.take(below, is_identified)?;
        let id = self.ids.borrow().get(&stranger).copied()?;
        self.refuse(id);
        Some(stranger)
    }

    /// Closes an association for which there is no room, or whose peer has no access.
    pub(in crate::server) fn refuse(&self, id: AssociationId) {
        // An error means that it has ended already.
        if let Ok(control) = self.endpoint.control(id) {
            control.abort(REFUSED);
        }
        self.ended(id);
    }

    /// Removes an association that has ended, and returns its flow.
    pub(in crate::server) fn ended(&self, id: AssociationId) -> Option<Flow> {
        report(&self.failed, self.begun.borrow_mut().remove(&id).unwrap_or_default());
        self.own.borrow_mut().remove(&id);
        let flow = self.flows.borrow_mut().remove(&id)?.flow;
        self.ids.borrow_mut().remove(&flow.connection);
        self.strangers.remove(flow.connection);
        Some(flow)
    }

    /// Associations that ended without a notification.
    pub(in crate::server) fn missed(&self) -> Vec<AssociationId> {
        let mut ids: Vec<AssociationId> = self.flows.borrow().keys().copied().collect();
        ids.extend(self.begun.borrow().keys().copied());
        ids.extend(self.own.borrow().iter().copied());
        ids.retain(|id| self.endpoint.control(*id).is_err());
        ids
    }

    pub(super) fn close(&self, flow: &Flow) -> bool {
        let id = self.ids.borrow().get(&flow.connection).copied();
        match id.map(|id| self.endpoint.control(id)) {
            Some(Ok(control)) => {
                control.abort(TAKEN_AWAY);
                true
            }
            _ => false,
        }
    }

    pub(super) fn send(self: &Rc<Self>, flow: Flow, client: Option<ClientId>, data: Bytes) -> bool {
        let many = Rc::clone(self);
        let (connection, len) = (flow.connection, data.len());
        if connection == 0 {
            tokio::task::spawn_local(async move {
                many.send_to_peer(Unsent::new(flow, client, &data), data).await
            });
            return true;
        }
        let Some(id) = self.ids.borrow().get(&connection).copied() else { return false };
        // There is almost always room, so a task is started only if there is none.
        let sent = {
            let attempt = pin!(self.endpoint.send_to(id, data.clone(), unordered()));
            attempt.poll(&mut Context::from_waker(Waker::noop()))
        };
        match sent {
            Poll::Ready(sent) => sent.is_ok(),
            Poll::Pending if !self.waiting.add(connection, len) => false,
            Poll::Pending => {
                tokio::task::spawn_local(async move {
                    if let Err(error) = many.endpoint.send_to(id, data, unordered()).await {
                        tracing::debug!(%error, "sending over SCTP failed");
                    }
                    many.waiting.remove(connection, len);
                });
                true
            }
        }
    }

    /// Sends to a peer, and sets up an association if there is none.
    async fn send_to_peer(&self, unsent: Unsent, data: Bytes) {
        let peer = unsent.flow.peer;
        match self.endpoint.send_to_peer((Address::of(peer), peer.port()), data, unordered()).await {
            Ok(id) if self.is_begun(id) => {
                self.begun.borrow_mut().entry(id).or_default().push(unsent);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, %peer, "sending over SCTP failed");
                report(&self.failed, vec![unsent]);
            }
        }
    }

    /// Returns true if this server is setting up the association.
    fn is_begun(&self, id: AssociationId) -> bool {
        let status = self.endpoint.control(id).ok().and_then(|control| control.status());
        status.is_some_and(|status| status.state.in_setup())
    }
}
