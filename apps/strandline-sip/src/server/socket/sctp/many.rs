//! One socket for all associations.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use strandline::{AssociationId, Endpoint};

use crate::server::socket::Connections;
use crate::transaction::{Flow, Numbers, Protocol};

use super::{TAKEN_AWAY, Waiting, unordered};

/// The one-to-many socket, and the numbers that its associations have as flows.
pub(in crate::server) struct Many {
    pub(in crate::server) endpoint: Endpoint,
    flows: RefCell<HashMap<AssociationId, Flow>>,
    ids: RefCell<HashMap<u64, AssociationId, Numbers>>,
    waiting: Waiting,
}

impl Many {
    pub(in crate::server) fn new(endpoint: Endpoint) -> Self {
        let waiting = Waiting::default();
        Self { endpoint, flows: RefCell::default(), ids: RefCell::default(), waiting }
    }

    pub(super) fn len(&self) -> usize {
        self.flows.borrow().len()
    }

    /// The flow of an association, and whether it is new.
    pub(in crate::server) fn flow(
        &self,
        connections: &Connections,
        id: AssociationId,
    ) -> Option<(Flow, bool)> {
        if let Some(flow) = self.flows.borrow().get(&id) {
            return Some((*flow, false));
        }
        let status = self.endpoint.control(id).ok()?.status()?;
        let mut peer = status.primary;
        peer.set_port(status.peer_port);
        let flow = Flow { connection: connections.number(), ..Flow::to(Protocol::Sctp, peer) };
        self.flows.borrow_mut().insert(id, flow);
        self.ids.borrow_mut().insert(flow.connection, id);
        Some((flow, true))
    }

    /// The flow of an association that has ended.
    pub(in crate::server) fn ended(&self, id: AssociationId) -> Option<Flow> {
        let flow = self.flows.borrow_mut().remove(&id)?;
        self.ids.borrow_mut().remove(&flow.connection);
        Some(flow)
    }

    /// Associations that have ended without a notification.
    pub(in crate::server) fn missed(&self) -> Vec<AssociationId> {
        self.flows.borrow().keys().copied().filter(|id| self.endpoint.control(*id).is_err()).collect()
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

    pub(super) fn send(self: &Rc<Self>, flow: Flow, data: Bytes) -> bool {
        let many = Rc::clone(self);
        let (connection, len) = (flow.connection, data.len());
        if connection == 0 {
            tokio::task::spawn_local(async move {
                if let Err(error) = many.endpoint.send_to_peer(flow.peer, data, unordered()).await {
                    tracing::debug!(%error, peer = %flow.peer, "sending over SCTP");
                }
            });
            return true;
        }
        let Some(id) = self.ids.borrow().get(&connection).copied() else { return false };
        // There is room almost always: only without it does a task wait.
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
                        tracing::debug!(%error, "sending over SCTP");
                    }
                    many.waiting.remove(connection, len);
                });
                true
            }
        }
    }
}
