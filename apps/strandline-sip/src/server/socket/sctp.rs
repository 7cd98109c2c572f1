//! SCTP (RFC 4168), carried in UDP: one socket for all associations, a message of SIP in each message of SCTP.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use strandline::{AssociationId, Endpoint, SendInfo};

use crate::transaction::{Flow, Protocol};

use super::connections::Connections;

/// The one-to-many socket, and the numbers that its associations have as flows.
pub(in crate::server) struct Sctp {
    pub(in crate::server) endpoint: Rc<Endpoint>,
    flows: RefCell<HashMap<AssociationId, Flow>>,
    ids: RefCell<HashMap<u64, AssociationId>>,
}

impl Sctp {
    pub(in crate::server) fn new(endpoint: Endpoint) -> Rc<Self> {
        Rc::new(Self { endpoint: Rc::new(endpoint), flows: RefCell::default(), ids: RefCell::default() })
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
        let flow = Flow { protocol: Protocol::Sctp, connection: connections.number(), peer };
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

    /// Sends a message. False if the association is gone.
    pub(in crate::server) fn send(&self, flow: Flow, bytes: &[u8]) -> bool {
        let data = Bytes::copy_from_slice(bytes);
        // No order between messages: none waits for another that was lost (RFC 4168 section 5.1).
        let info = SendInfo { unordered: true, ..SendInfo::default() };
        let endpoint = Rc::clone(&self.endpoint);
        if flow.connection == 0 {
            tokio::task::spawn_local(async move {
                if let Err(error) = endpoint.send_to_peer(flow.peer, data, info).await {
                    tracing::debug!(%error, peer = %flow.peer, "sending over SCTP");
                }
            });
            return true;
        }
        let Some(id) = self.ids.borrow().get(&flow.connection).copied() else { return false };
        // There is room almost always: only without it does a task wait.
        let sent = {
            let attempt = pin!(endpoint.send_to(id, data.clone(), info));
            attempt.poll(&mut Context::from_waker(Waker::noop()))
        };
        match sent {
            Poll::Ready(sent) => sent.is_ok(),
            Poll::Pending => {
                tokio::task::spawn_local(async move {
                    if let Err(error) = endpoint.send_to(id, data, info).await {
                        tracing::debug!(%error, "sending over SCTP");
                    }
                });
                true
            }
        }
    }
}
