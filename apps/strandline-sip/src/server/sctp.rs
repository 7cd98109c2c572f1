//! SCTP (RFC 4168), carried in UDP: one socket for all associations, a message of SIP in each message of SCTP.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use strandline::{AssociationId, Endpoint, Notification, SendInfo};

use crate::codec::Datagram;
use crate::transaction::{Flow, Protocol};

use super::hub::Hub;

/// Messages taken at a time.
const BATCH: usize = 256;

/// The one-to-many socket, and the numbers that its associations have as flows.
pub(super) struct Sctp {
    pub(super) endpoint: Rc<Endpoint>,
    flows: RefCell<HashMap<AssociationId, Flow>>,
    ids: RefCell<HashMap<u64, AssociationId>>,
}

impl Sctp {
    pub(super) fn new(endpoint: Endpoint) -> Rc<Self> {
        Rc::new(Self { endpoint: Rc::new(endpoint), flows: RefCell::default(), ids: RefCell::default() })
    }

    /// Receives until the task is ended.
    pub(super) async fn serve(self: Rc<Self>, hub: Rc<Hub>) {
        let mut messages = Vec::with_capacity(BATCH);
        loop {
            if let Err(error) = self.endpoint.recv_many_from(&mut messages, BATCH).await {
                tracing::error!(%error, "receiving over SCTP");
                return;
            }
            hub.with(|service, now| {
                for (id, message) in messages.drain(..) {
                    let whole = message.begins && message.ends;
                    let Some((flow, new)) = self.flow(&hub, id).filter(|_| whole) else { continue };
                    if new {
                        service.connection_opened(flow.connection);
                    }
                    if Datagram::of(&message.data) == Datagram::Sip {
                        service.handle_message(now, flow, &message.data);
                    }
                }
            });
        }
    }

    /// Waits for the end of associations until the task is ended.
    pub(super) async fn watch(self: Rc<Self>, hub: Rc<Hub>) {
        let mut notifications = self.endpoint.notifications();
        while let Some((id, notification)) = notifications.next().await {
            match (id, notification) {
                (Some(id), Notification::Closed(_)) => self.ended(&hub, id),
                (None, Notification::Missed(_)) => self.look(&hub),
                _ => {}
            }
        }
    }

    /// The flow of an association, and whether it is new.
    fn flow(&self, hub: &Hub, id: AssociationId) -> Option<(Flow, bool)> {
        if let Some(flow) = self.flows.borrow().get(&id) {
            return Some((*flow, false));
        }
        let status = self.endpoint.control(id).ok()?.status()?;
        let mut peer = status.primary;
        peer.set_port(status.peer_port);
        let flow = Flow { protocol: Protocol::Sctp, connection: hub.connections.number(), peer };
        self.flows.borrow_mut().insert(id, flow);
        self.ids.borrow_mut().insert(flow.connection, id);
        Some((flow, true))
    }

    fn ended(&self, hub: &Rc<Hub>, id: AssociationId) {
        let Some(flow) = self.flows.borrow_mut().remove(&id) else { return };
        self.ids.borrow_mut().remove(&flow.connection);
        hub.with(|service, _| service.connection_closed(flow.connection));
    }

    /// Some ends were missed: looks at all.
    fn look(&self, hub: &Rc<Hub>) {
        let ids: Vec<AssociationId> = self.flows.borrow().keys().copied().collect();
        for id in ids {
            if self.endpoint.control(id).is_err() {
                self.ended(hub, id);
            }
        }
    }

    /// Sends a message. False if the association is gone.
    pub(super) fn send(&self, flow: Flow, bytes: &[u8]) -> bool {
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
