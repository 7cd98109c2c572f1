//! SCTP: messages and ends of associations.

use std::rc::Rc;

use strandline::{AssociationId, Notification};

use crate::codec::Datagram;
use crate::server::hub::Hub;
use crate::server::socket::Sctp;

/// Messages taken at a time.
const BATCH: usize = 256;

/// Receives until the task is ended.
pub(in crate::server) async fn serve(sctp: Rc<Sctp>, hub: Rc<Hub>) {
    let mut messages = Vec::with_capacity(BATCH);
    loop {
        if let Err(error) = sctp.endpoint.recv_many_from(&mut messages, BATCH).await {
            tracing::error!(%error, "receiving over SCTP");
            return;
        }
        let mut opened = Vec::new();
        hub.take_in(|inbox, now| {
            for (id, message) in messages.drain(..) {
                let whole = message.begins && message.ends;
                let Some((flow, new)) = sctp.flow(&hub.connections, id).filter(|_| whole) else { continue };
                opened.extend(Some(flow.connection).filter(|_| new));
                if Datagram::of(&message.data) == Datagram::Sip {
                    inbox.push(now, flow, message.data);
                }
            }
        });
        let mut service = hub.service.borrow_mut();
        opened.into_iter().for_each(|connection| service.connection_opened(connection));
    }
}

/// Waits for the end of associations until the task is ended.
pub(in crate::server) async fn watch(sctp: Rc<Sctp>, hub: Rc<Hub>) {
    let mut notifications = sctp.endpoint.notifications();
    while let Some((id, notification)) = notifications.next().await {
        match (id, notification) {
            (Some(id), Notification::Closed(_)) => {
                hub.is_done().await;
                ended(&sctp, &hub, id);
            }
            (None, Notification::Missed(_)) => {
                sctp.missed().into_iter().for_each(|id| ended(&sctp, &hub, id));
            }
            _ => {}
        }
    }
}

fn ended(sctp: &Sctp, hub: &Rc<Hub>, id: AssociationId) {
    if let Some(flow) = sctp.ended(id) {
        hub.with(|service, _| service.connection_closed(flow.connection));
    }
}
