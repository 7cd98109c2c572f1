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
        hub.with(|service, now| {
            for (id, message) in messages.drain(..) {
                let whole = message.begins && message.ends;
                let Some((flow, new)) = sctp.flow(&hub.connections, id).filter(|_| whole) else { continue };
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
pub(in crate::server) async fn watch(sctp: Rc<Sctp>, hub: Rc<Hub>) {
    let mut notifications = sctp.endpoint.notifications();
    while let Some((id, notification)) = notifications.next().await {
        match (id, notification) {
            (Some(id), Notification::Closed(_)) => ended(&sctp, &hub, id),
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
