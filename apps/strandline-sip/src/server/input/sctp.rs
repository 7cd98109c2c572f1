//! Receives SCTP messages and notifications.

use std::rc::Rc;

use strandline::{Association, AssociationId, Message, Notification};

use crate::codec::Datagram;
use crate::server::hub::Hub;
use crate::server::socket::{FIRST, Failed, Many, Met, One, Opened, REFUSED};
use crate::service::is_identified;
use crate::transaction::Flow;

/// Maximum number of messages received at a time from a one-to-many socket.
const BATCH: usize = 256;
/// Maximum number of messages received at a time from one association.
const BATCH_OF_ONE: usize = 64;

/// Receives from a one-to-many socket, until the task is ended.
pub(in crate::server) async fn serve_many(many: Rc<Many>, hub: Rc<Hub>) {
    let mut messages = Vec::with_capacity(BATCH);
    loop {
        if let Err(error) = many.endpoint.recv_many_from(&mut messages, BATCH).await {
            tracing::error!(%error, "receiving over SCTP failed");
            return;
        }
        let (mut opened, mut shed) = (Vec::new(), Vec::new());
        hub.take_in(|taking| {
            for (id, message) in messages.drain(..) {
                let is_sip = is_sip(&message);
                let Some(Met { flow, is_new, is_first }) = many.meet(&hub.transports.connections, id, is_sip)
                else {
                    continue;
                };
                if is_new && !(taking.admits(flow.peer.ip()) && makes_room(&many, &hub, &mut shed)) {
                    many.refuse(id);
                    continue;
                }
                opened.extend(Some(flow.connection).filter(|_| is_new));
                match is_sip {
                    true if is_first => taking.push_first(flow, &message.data),
                    true => taking.push(flow, &message.data, || message.data.clone()),
                    false => {}
                }
            }
        });
        let mut service = hub.service.borrow_mut();
        opened.into_iter().for_each(|connection| service.connection_opened(connection));
        drop(service);
        closed(&hub, shed);
    }
}

/// Watches the notifications of a one-to-many socket, until the task is ended.
pub(in crate::server) async fn watch_many(many: Rc<Many>, hub: Rc<Hub>) {
    let mut notifications = many.endpoint.notifications();
    while let Some((id, notification)) = notifications.next().await {
        match (id, notification) {
            (Some(id), Notification::Established { incoming: false, .. }) => many.stands(id),
            (Some(id), Notification::Established { .. }) => came(&many, &hub, id),
            (Some(id), Notification::Closed { .. }) => {
                hub.intake.wait_until_handled().await;
                ended(&many, &hub, id);
            }
            (None, Notification::Missed(_)) => {
                many.missed().into_iter().for_each(|id| ended(&many, &hub, id));
            }
            _ => {}
        }
    }
}

/// Makes room for a new association. If there are too many, one of a stranger is closed, and its number is
/// added to `shed`.
fn makes_room(many: &Many, hub: &Hub, shed: &mut Vec<u64>) -> bool {
    let below = hub.transports.connections.settled_below(hub.clock.elapsed());
    let room = hub.transports.room.get().connections;
    if many.len() > room {
        let service = hub.service.borrow();
        shed.extend(many.shed(below, |connection| is_identified(&service, connection)));
    }
    many.len() <= room
}

/// Reports closed associations to the service.
fn closed(hub: &Rc<Hub>, shed: Vec<u64>) {
    for connection in shed {
        tracing::debug!(connection, "association of a stranger aborted to make room");
        hub.with(|service, _| service.connection_closed(connection));
    }
}

/// Handles an association that a peer has set up, even if no message has come yet.
fn came(many: &Many, hub: &Rc<Hub>, id: AssociationId) {
    let Some(Met { flow, is_new: true, .. }) = many.meet(&hub.transports.connections, id, false) else {
        return;
    };
    let (mut shed, now) = (Vec::new(), hub.clock.elapsed());
    if hub.intake.inbox(|inbox| inbox.admits(now, flow.peer.ip())) && makes_room(many, hub, &mut shed) {
        hub.service.borrow_mut().connection_opened(flow.connection);
    } else {
        many.refuse(id);
    }
    closed(hub, shed);
}

fn ended(many: &Many, hub: &Rc<Hub>, id: AssociationId) {
    if let Some(flow) = many.ended(id) {
        hub.with(|service, _| service.connection_closed(flow.connection));
    }
}

/// Accepts associations of one-to-one style, until the task is ended.
pub(in crate::server) async fn serve_one(one: Rc<One>, hub: Rc<Hub>) {
    loop {
        match one.listener.accept().await {
            Ok(association) if !may_send(&association, &hub) || !has_place(&one, &hub) => {
                association.abort(REFUSED)
            }
            Ok(association) => {
                // It counts before its task runs: in a burst the next one is accepted before that.
                let association = Rc::new(association);
                let Some(flow) = one.add(&hub.transports.connections, &association) else { continue };
                one.is_of_stranger(&flow);
                tokio::task::spawn_local(receive(Rc::clone(&one), Rc::clone(&hub), association, flow));
            }
            Err(error) => {
                tracing::error!(%error, "accepting associations failed");
                return;
            }
        }
    }
}

/// Returns true if there is room for another association, after closing one of a stranger if need be.
fn has_place(one: &One, hub: &Hub) -> bool {
    let below = hub.transports.connections.settled_below(hub.clock.elapsed());
    let shed = || {
        let service = hub.service.borrow();
        one.shed(below, |connection| is_identified(&service, connection))
    };
    one.len() < hub.transports.room.get().connections || shed()
}

/// Returns true if the peer has access.
fn may_send(association: &Association, hub: &Hub) -> bool {
    let status = association.status();
    let now = hub.clock.elapsed();
    status.is_none_or(|status| hub.intake.inbox(|inbox| inbox.admits(now, status.primary.ip())))
}

/// Handles associations that this server sets up, until the task is ended.
pub(in crate::server) async fn open_wanted(mut opened: Opened, one: Rc<One>, hub: Rc<Hub>) {
    while let Some(peer) = opened.recv().await {
        let Some(association) = one.is_begun(peer) else { continue };
        let (one, hub) = (Rc::clone(&one), Rc::clone(&hub));
        tokio::task::spawn_local(async move {
            let stands = association.established().await;
            one.has_begun(peer, stands.is_ok());
            match stands {
                Ok(()) => {
                    if let Some(flow) = one.add(&hub.transports.connections, &association) {
                        receive(one, hub, association, flow).await;
                    }
                }
                Err(error) => tracing::debug!(%error, %peer, "setting up an association failed"),
            }
        });
    }
}

/// Reports messages that could not be sent because no association could be set up, until the task is ended.
pub(in crate::server) async fn report_failed(mut failed: Failed, hub: Rc<Hub>) {
    while let Some(unsent) = failed.recv().await {
        hub.with(|service, now| match unsent.client {
            Some(client) => service.send_failed(now, client),
            None if unsent.message.starts_with(b"SIP/2.0 ") => {
                service.response_failed(now, unsent.flow, &unsent.message);
            }
            None => {}
        });
    }
}

/// Receives from a one-to-one socket until its association ends.
async fn receive(one: Rc<One>, hub: Rc<Hub>, association: Rc<Association>, flow: Flow) {
    hub.service.borrow_mut().connection_opened(flow.connection);
    let mut first_left = FIRST;
    loop {
        // No buffer is held while waiting.
        let mut messages = Vec::new();
        match association.recv_many(&mut messages, BATCH_OF_ONE).await {
            Ok(0) | Err(_) => break,
            Ok(_) => hub.take_in(|taking| {
                for Message { data, .. } in messages.into_iter().filter(is_sip) {
                    one.on_message(&hub.transports.connections, &flow);
                    match first_left.checked_sub(1) {
                        Some(left) => {
                            first_left = left;
                            taking.push_first(flow, &data);
                        }
                        None => taking.push(flow, &data, || data.clone()),
                    }
                }
            }),
        }
    }
    hub.intake.wait_until_handled().await;
    one.remove(&flow);
    hub.with(|service, _| service.connection_closed(flow.connection));
}

/// Returns true for a complete SIP message. Keep-alives and parts of oversized messages are not.
fn is_sip(message: &Message) -> bool {
    message.begins && message.ends && Datagram::of(&message.data) == Datagram::Sip
}
