//! Dispatches the engine's events to the associations, sockets and tasks that they concern.

use bytes::Bytes;
use strandline_proto::endpoint::StreamCredits;
use strandline_proto::event::{AssociationId, CloseReason, Event};
use strandline_proto::number::StreamId;
use strandline_proto::reconfiguration::{Outcome, Streams};
use strandline_proto::time::Time;

use super::restarts::Restart;
use super::socket::Socket;
use super::state::State;
use super::stream_credit::begin_credit;
use super::streams::DynamicOf;
use super::table::{Owner, route};
use crate::notification::Notification;

impl State {
    /// Dispatches all pending events of the engine, and moves messages to their readers afterwards: events say how many
    /// messages the engine held when they happened.
    pub(crate) fn dispatch(&mut self, now: Time) {
        if !self.held_back.is_empty() && !self.taken.is_full() {
            self.to_route.extend(self.held_back.drain());
        }
        loop {
            while let Some((id, event)) = self.engine.poll_event() {
                self.readable |= matches!(event, Event::Readable);
                if let Event::AddressRequest { request, outcome } = event
                    && let Some(following) = &mut self.following
                {
                    following.on_outcome(now, id, request, outcome);
                }
                match self.table.get(id).and_then(|entry| entry.owner()) {
                    Some(Owner::OneToMany(socket)) => self.deliver_to_endpoint(socket, id, event),
                    Some(Owner::OneToOne) => self.deliver_to_holder(id, event),
                    Some(Owner::Orphan) => self.deliver_to_orphan(now, id, &event),
                    None => self.deliver_to_newcomer(now, id, event),
                }
            }
            let Some(id) = self.to_route.pop() else { return };
            self.route_now(now, id);
        }
    }

    /// Handles an event of an association that the peer set up: it belongs to the socket bound to its port.
    fn deliver_to_newcomer(&mut self, now: Time, id: AssociationId, event: Event) {
        let Event::Established { .. } = event else { return };
        let Some(port) = self.engine.status(id).map(|status| status.local_port) else { return };
        match self.sockets.on_port(port) {
            Some((index, Socket::Many(_))) => {
                self.table.insert(id, Owner::OneToMany(index));
                self.deliver_to_endpoint(index, id, event);
            }
            Some((_, Socket::Listener(listener))) if listener.queue.len() < listener.backlog => {
                listener.queue.push_back(id);
                listener.waiters.wake_one(&mut self.to_wake);
                self.table.insert(id, Owner::OneToOne);
                self.deliver_to_holder(id, event);
            }
            other => {
                if let Some((_, Socket::Listener(listener))) = other {
                    listener.refused += 1;
                }
                // The socket is gone or its backlog is full: abort, so that the peer knows at once.
                let _ = self.engine.abort(now, id, Bytes::from_static(b"nobody accepts the association"));
                self.engine.release(id);
            }
        }
    }

    fn deliver_to_endpoint(&mut self, socket: u32, id: AssociationId, event: Event) {
        match event {
            Event::Readable => self.endpoint_readable(socket, id),
            Event::Writable => {
                if let Some(cell) = self.table.cell_mut(id) {
                    cell.write.wake_next(&mut self.to_wake);
                }
                self.drop_idle_cell(id);
            }
            Event::StreamWritable { stream } => {
                if let Some(cell) = self.table.cell_mut(id) {
                    cell.write.wake_stream(stream, &mut self.to_wake);
                }
            }
            Event::PeerShutdown => {
                self.refuse_writers(id);
                self.endpoint_notification(socket, id, event);
            }
            Event::Restarted { unread, cut } => {
                // Kept for the handle that the association may be peeled off to: for the byte stream of unread
                // messages, too.
                if (cut.is_some() || unread > 0)
                    && let Some(entry) = self.table.get_mut(id)
                {
                    let restart = Restart::of_peer(cut);
                    entry.cell_mut().restarts.get_or_insert_default().push(unread, restart);
                }
                self.endpoint_notification(socket, id, event);
            }
            Event::StreamsReset { direction, ref streams, outcome: Outcome::Performed, unread }
                if direction.is_incoming() =>
            {
                record_reset(self, id, streams, unread, None);
                self.endpoint_notification(socket, id, event);
            }
            Event::AssociationReset { outcome: Outcome::Performed, unread, cut, .. } => {
                record_reset(self, id, &Streams::All, unread, cut);
                self.endpoint_notification(socket, id, event);
            }
            Event::PartialDeliveryAborted { stream, unread } => {
                // Kept for the handle that the association may be peeled off to.
                if let Some(entry) = self.table.get_mut(id) {
                    entry.cell_mut().push_cut(stream, unread, &mut self.to_wake);
                }
                self.endpoint_notification(socket, id, event);
            }
            Event::Closed(reason) => {
                let unread = self.engine.status(id).is_some_and(|status| status.receive_buffered > 0);
                let Some(entry) = self.table.get_mut(id) else { return };
                if entry.queued && unread {
                    // Messages that arrived before the end are read first.
                    entry.cell_mut().outcome = Some(Box::new(reason));
                    entry.cell_mut().wake_all(&mut self.to_wake);
                } else {
                    if let Some(cell) = &mut entry.cell {
                        cell.wake_all(&mut self.to_wake);
                    }
                    self.endpoint_closed(socket, id, reason);
                }
            }
            Event::Established { .. } => {
                if let Some(following) = &mut self.following {
                    following.welcome(self.now, id);
                }
                self.endpoint_notification(socket, id, event);
            }
            other => self.endpoint_notification(socket, id, other),
        }
    }

    fn endpoint_readable(&mut self, socket: u32, id: AssociationId) {
        let (Some(entry), Some(many)) = (self.table.get_mut(id), self.sockets.many(socket)) else { return };
        if !std::mem::replace(&mut entry.queued, true) {
            many.ready.push_back(id);
            many.read.wake_one(&mut self.to_wake);
        }
    }

    fn endpoint_notification(&mut self, socket: u32, id: AssociationId, event: Event) {
        let Some(many) = self.sockets.many(socket) else { return };
        if let Some(queue) = &mut many.notifications
            && let Some(notification) = Notification::of(event, &self.engine, id)
        {
            queue.push((id, notification));
            queue.waiters.wake_all(&mut self.to_wake);
        }
    }

    /// Handles the end of an endpoint's association once all its messages were read.
    pub(crate) fn endpoint_closed(&mut self, socket: u32, id: AssociationId, reason: CloseReason) {
        self.endpoint_notification(socket, id, Event::Closed(reason));
        self.give_back(id);
        self.wake_if_finished(socket);
    }

    fn deliver_to_holder(&mut self, id: AssociationId, event: Event) {
        let Some(entry) = self.table.get_mut(id) else { return };
        let cell = entry.cell.get_or_insert_default();
        let to_wake = &mut self.to_wake;
        match &event {
            Event::Readable => {
                if cell.routes.is_some() {
                    return route(&mut self.to_route, id);
                }
                cell.read.wake_all(to_wake);
            }
            Event::Writable => cell.write.wake_next(to_wake),
            Event::StreamWritable { stream } => cell.write.wake_stream(*stream, to_wake),
            Event::Established { .. } => {
                let begins = on_established(self, id);
                if !begins {
                    return;
                }
            }
            Event::Restarted { unread, cut } => {
                // The peer has lost its state, including a shutdown in progress.
                cell.peer_done = false;
                cell.restarts.get_or_insert_default().push(*unread, Restart::of_peer(*cut));
                begin_credit(&mut self.engine, cell, id);
                if let Some(routes) = &mut cell.routes {
                    routes.expect_restart();
                }
                cell.wake_readers(to_wake);
                DynamicOf::of(self).on_numbers(id, &event);
                DynamicOf::of(self).set_even(id);
                route(&mut self.to_route, id);
            }
            Event::StreamsReset { direction, streams, outcome: Outcome::Performed, unread }
                if direction.is_incoming() =>
            {
                cell.push_reset(streams, *unread, None, to_wake);
                DynamicOf::of(self).on_numbers(id, &event);
                route(&mut self.to_route, id);
            }
            Event::AssociationReset { outcome: Outcome::Performed, unread, cut, .. } => {
                cell.push_reset(&Streams::All, *unread, *cut, to_wake);
                DynamicOf::of(self).on_numbers(id, &event);
                route(&mut self.to_route, id);
            }
            Event::DynamicStreams(event) => DynamicOf::of(self).on_dynamic(id, event),
            Event::StreamsChanged { .. } => DynamicOf::of(self).on_numbers(id, &event),
            Event::PartialDeliveryAborted { stream, unread } => {
                cell.push_cut(*stream, *unread, to_wake);
                route(&mut self.to_route, id);
            }
            Event::PeerShutdown => {
                cell.peer_done = true;
                cell.wake_readers(to_wake);
                cell.write.dissolve(to_wake);
                cell.refuse_openers(to_wake);
            }
            Event::Closed(reason) => {
                cell.outcome = Some(Box::new(reason.clone()));
                cell.wake_all(to_wake);
            }
            _ => {}
        }
        let Some(cell) = self.table.cell_mut(id) else { return };
        let (engine, to_wake) = (&self.engine, &mut self.to_wake);
        cell.notify(|| Notification::of(event, engine, id), to_wake);
    }

    fn deliver_to_orphan(&mut self, now: Time, id: AssociationId, event: &Event) {
        match event {
            Event::Readable => self.drain_unread(now, id),
            Event::Closed(_) => self.give_back(id),
            _ => {}
        }
    }

    /// Moves received messages from the engine to the queues of streams with their own reader, as far as there
    /// is room. No event may be pending.
    pub(crate) fn route_now(&mut self, now: Time, id: AssociationId) {
        let Some(cell) = self.table.cell_mut(id) else { return };
        let Some(routes) = &mut cell.routes else { return };
        let was_full = routes.is_full();
        let (mut freed, mut stopped) = (false, Vec::new());
        while routes.takes_more() {
            if let Some(restarts) = &mut cell.restarts
                && let Some(restart) = restarts.take_due()
            {
                routes.push_restart(restart);
                continue;
            }
            if let Some(dynamic) = &mut routes.dynamic {
                freed |= dynamic.advance(&mut stopped, &mut self.to_wake);
            }
            let Some(message) = self.engine.recv(now, id) else { break };
            if let Some(restarts) = &mut cell.restarts {
                restarts.advance(1);
            }
            if let Some(dynamic) = &mut routes.dynamic {
                dynamic.on_taken();
            }
            if let Some((stream, len)) = routes.push(message, &mut cell.read, &mut self.to_wake) {
                StreamCredits::of(&mut self.engine, id).read(now, stream, len);
            }
        }
        if let Some(dynamic) = routes.dynamic.as_mut().filter(|_| freed) {
            dynamic.openers.wake_next(&mut self.to_wake);
        }
        for stream in stopped {
            cell.write.wake_all_of(stream, &mut self.to_wake);
        }
        let is_dynamic = routes.dynamic.is_some();
        if routes.is_held_back() {
            self.held_back.insert(id);
        }
        let may_have_ended = was_full && !routes.is_full() && (cell.outcome.is_some() || cell.peer_done);
        cell.forget_reached_restarts();
        if may_have_ended {
            // Until now the engine might have had something for them.
            cell.wake_readers(&mut self.to_wake);
        }
        if is_dynamic {
            DynamicOf::of(self).apply_dynamic(now, id);
        }
    }
}

/// Begins with an association that was established. Returns false if it had to be aborted: for the application it was
/// not established then.
fn on_established(state: &mut State, id: AssociationId) -> bool {
    if !DynamicOf::of(state).on_established(id) {
        return false;
    }
    let Some(cell) = state.table.cell_mut(id) else { return false };
    cell.established = true;
    cell.change.wake_all(&mut state.to_wake);
    begin_credit(&mut state.engine, cell, id);
    if let Some(following) = &mut state.following {
        following.welcome(state.now, id);
    }
    true
}

/// Records a reset of streams of an endpoint's association, for the handle that the association may be peeled off to.
fn record_reset(
    state: &mut State,
    id: AssociationId,
    streams: &Streams,
    unread: usize,
    cut: Option<StreamId>,
) {
    if (cut.is_some() || unread > 0)
        && let Some(entry) = state.table.get_mut(id)
    {
        entry.cell_mut().push_reset(streams, unread, cut, &mut state.to_wake);
    }
}
