//! Operations of one-to-one associations.

use std::task::Poll;

use bytes::Bytes;
use strandline_proto::endpoint::{Connect, StreamCredits};
use strandline_proto::error::{ConnectError as Refusal, SendError as EngineSendError};
use strandline_proto::event::{AssociationId, CloseReason, Message, SendInfo};
use strandline_proto::number::{Ssn, StreamId};
use strandline_proto::time::Time;

use super::cell::Cell;
use super::restarts::{Anew, Restart};
use super::routes::{Item, Routes};
use super::state::State;
use super::stream_credit::begin_credit;
use super::table::{Owner, is_dynamic, route};
use crate::engine::Engine;
use crate::error::{ConnectError, Ended, OpenStreamError, RecvError, SendError};
use crate::notification::{Notification, NotificationQueue};

/// Minimum limit of bytes queued for readers of single streams before no more messages are taken from the
/// engine.
const ROUTED_BYTES_MIN: usize = 64 << 10;

/// Limit of messages received in one call, during which a lock is held.
pub(crate) const RECV_MANY_MAX: usize = 1024;

/// Limit of notifications queued for one association.
const NOTIFICATIONS_MAX: usize = 1024;

/// Returns how many bytes may be queued for readers of single streams. As many as the receive buffer, so that one slow
/// stream doesn't close the window at once.
pub(super) fn routes_limit(engine: &Engine, id: AssociationId) -> Option<usize> {
    let status = engine.status(id)?;
    Some((status.a_rwnd.saturating_add(status.receive_buffered) as usize).max(ROUTED_BYTES_MIN))
}

impl State {
    /// Starts an association for a one-to-one handle or a one-to-many endpoint.
    pub(crate) fn connect(
        &mut self,
        now: Time,
        owner: Owner,
        to: Connect,
        allowed: impl Fn(u16) -> bool,
    ) -> Result<AssociationId, Refusal> {
        let id = self.engine.connect_from(now, to, allowed)?;
        self.table.insert(id, owner);
        if owner == Owner::OneToOne
            && let Some(entry) = self.table.get_mut(id)
        {
            entry.cell_mut();
        }
        Ok(id)
    }

    /// Ready once the association is established, or with an error if it ended before that.
    pub(crate) fn poll_established(&mut self, id: AssociationId) -> Poll<Result<(), ConnectError>> {
        let Some(cell) = self.table.cell_mut(id) else { return Poll::Ready(Err(Ended::StackClosed.into())) };
        match &cell.outcome {
            Some(reason) if !cell.established => Poll::Ready(Err(Ended::of(reason).into())),
            _ if cell.established => Poll::Ready(Ok(())),
            _ if self.gone => Poll::Ready(Err(Ended::StackClosed.into())),
            _ => Poll::Pending,
        }
    }

    /// Passes a message to the engine, which takes it out of `data`; pending if there is no room.
    pub(crate) fn poll_send(
        &mut self,
        now: Time,
        id: AssociationId,
        info: SendInfo,
        data: &mut Bytes,
    ) -> Poll<Result<(), SendError>> {
        if is_dynamic(&self.table, id, info.stream) {
            return Poll::Ready(Err(SendError::Dynamic(info.stream.0)));
        }
        let len = data.len();
        self.poll_give(id, len, |engine| engine.send_from(now, id, info, data))
    }

    /// Passes a copy of a message to the engine; pending if there is no room.
    pub(crate) fn poll_send_slice(
        &mut self,
        now: Time,
        id: AssociationId,
        info: SendInfo,
        data: &[u8],
    ) -> Poll<Result<(), SendError>> {
        if is_dynamic(&self.table, id, info.stream) {
            return Poll::Ready(Err(SendError::Dynamic(info.stream.0)));
        }
        self.poll_give(id, data.len(), |engine| engine.send_slice(now, id, info, data))
    }

    pub(super) fn poll_give(
        &mut self,
        id: AssociationId,
        len: usize,
        give: impl FnOnce(&mut Engine) -> Result<(), EngineSendError>,
    ) -> Poll<Result<(), SendError>> {
        if self.gone {
            return Poll::Ready(Err(Ended::StackClosed.into()));
        }
        match give(&mut self.engine) {
            Ok(()) => {
                self.out.queued_bytes += len;
                Poll::Ready(Ok(()))
            }
            Err(EngineSendError::Closed) => Poll::Ready(Err(self.why_not_writable(id))),
            Err(EngineSendError::StreamBlocked { stream }) => {
                self.blocked_stream = Some(StreamId(stream));
                Poll::Pending
            }
            Err(error) => match SendError::of(error) {
                Some(error) => Poll::Ready(Err(error)),
                None => Poll::Pending,
            },
        }
    }

    fn why_not_writable(&mut self, id: AssociationId) -> SendError {
        match self.table.cell_mut(id).and_then(|cell| cell.outcome.as_deref()) {
            Some(reason) => Ended::of(reason).into(),
            None => SendError::ShuttingDown,
        }
    }

    /// Receives the next message of an association, or of one of its streams; `None` once no more will arrive.
    pub(crate) fn poll_recv(
        &mut self,
        now: Time,
        id: AssociationId,
        stream: Option<StreamId>,
    ) -> Poll<Result<Option<Message>, RecvError>> {
        // Nothing is known of the association: that is no clean end.
        let unknown = || Poll::Ready(Err(Ended::StackClosed.into()));
        let Some(cell) = self.table.cell_mut(id) else { return unknown() };
        let item = match &mut cell.routes {
            None => recv_unrouted(&mut self.engine, cell, now, id),
            Some(routes) => {
                let was_full = routes.is_full();
                let item = routes.pop(stream);
                if let Some(Item::Message(message)) = &item {
                    StreamCredits::of(&mut self.engine, id).read(now, message.stream, message.data.len());
                }
                if item.is_some() && was_full {
                    route(&mut self.to_route, id);
                }
                item
            }
        };
        match item {
            Some(Item::Message(message)) => return Poll::Ready(Ok(Some(message))),
            Some(Item::Restart(restart)) => return Poll::Ready(Err(error_of(&restart))),
            None => {}
        }
        let Some(cell) = self.table.cell_mut(id) else { return unknown() };
        // Unread messages of streams with their own reader may keep messages of this one in the engine.
        let stalled = cell.routes.as_ref().is_some_and(|routes| routes.is_full());
        match &cell.outcome {
            _ if stalled && !self.gone => Poll::Pending,
            // What the engine still holds may belong to this stream: it is not known to be complete.
            _ if stalled => Poll::Ready(Err(Ended::StackClosed.into())),
            Some(reason) if **reason == CloseReason::Shutdown => Poll::Ready(Ok(None)),
            Some(reason) => Poll::Ready(Err(Ended::of(reason).into())),
            None if cell.peer_done => Poll::Ready(Ok(None)),
            None if self.gone => Poll::Ready(Err(Ended::StackClosed.into())),
            None => Poll::Pending,
        }
    }

    /// Receives the messages that have arrived, up to a limit; 0 once no more will arrive.
    pub(crate) fn poll_recv_batch(
        &mut self,
        now: Time,
        id: AssociationId,
        messages: &mut Vec<Message>,
        limit: usize,
    ) -> Poll<Result<usize, RecvError>> {
        if let Some(cell) = self.table.cell_mut(id).filter(|cell| cell.routes.is_none()) {
            if let Some(restart) = cell.take_cut() {
                return Poll::Ready(Err(error_of(&restart)));
            }
            let count = self.engine.recv_many(now, id, messages, limit.min(cell.before_restart()));
            cell.count_taken(count);
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
        }
        for count in 0..limit {
            // Taken now, a restart would be lost: it is the result of the next call.
            if count > 0 && self.table.cell_mut(id).is_some_and(|cell| cell.restart_is_next()) {
                return Poll::Ready(Ok(count));
            }
            match self.poll_recv(now, id, None) {
                Poll::Ready(Ok(Some(message))) => messages.push(message),
                Poll::Pending if count == 0 => return Poll::Pending,
                Poll::Ready(Err(error)) if count == 0 => return Poll::Ready(Err(error)),
                // The end is reported by the next call.
                _ => return Poll::Ready(Ok(count)),
            }
        }
        Poll::Ready(Ok(limit))
    }

    /// Returns how the association ended, once it has.
    pub(crate) fn poll_closed(&mut self, id: AssociationId) -> Poll<Ended> {
        match self.table.cell_mut(id).and_then(|cell| cell.outcome.as_deref()) {
            Some(reason) => Poll::Ready(Ended::of(reason)),
            None if self.gone => Poll::Ready(Ended::StackClosed),
            None => Poll::Pending,
        }
    }

    /// Starts queueing notifications for the holder.
    pub(crate) fn subscribe(&mut self, id: AssociationId) {
        if let Some(cell) = self.table.cell_mut(id) {
            cell.notifications.get_or_insert_with(|| Box::new(NotificationQueue::new(NOTIFICATIONS_MAX)));
        }
    }

    pub(crate) fn poll_notification(&mut self, id: AssociationId) -> Poll<Option<Notification>> {
        let Some(cell) = self.table.cell_mut(id) else { return Poll::Ready(None) };
        let next = cell.notifications.as_mut().and_then(|queue| queue.pop());
        match next {
            Some(Ok(notification)) => Poll::Ready(Some(notification)),
            Some(Err(missed)) => Poll::Ready(Some(Notification::Missed(missed))),
            None if cell.outcome.is_some() || self.gone => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Registers a reader for one stream. Returns the SSN of the next message that becomes readable, or
    /// `None` if what is unread has an earlier numbering.
    pub(crate) fn claim(
        &mut self,
        now: Time,
        id: AssociationId,
        stream: StreamId,
    ) -> Result<Option<Ssn>, OpenStreamError> {
        let status = self.engine.status(id).ok_or(OpenStreamError::Ended)?;
        if stream.0 >= status.inbound_streams {
            return Err(OpenStreamError::NoSuchStream { stream: stream.0, streams: status.inbound_streams });
        }
        let limit = routes_limit(&self.engine, id).ok_or(OpenStreamError::Ended)?;
        let cell = self.table.cell_mut(id).ok_or(OpenStreamError::Ended)?;
        let routes = cell.routes.get_or_insert_with(|| Box::new(Routes::new(limit, &self.taken)));
        if routes.dynamic.as_ref().is_some_and(|dynamic| stream >= dynamic.settings.first) {
            return Err(OpenStreamError::Dynamic(stream.0));
        }
        let claimed = routes.claim(stream);
        begin_credit(&mut self.engine, cell, id);
        if !claimed {
            return Err(OpenStreamError::InUse(stream.0));
        }
        let next = self.engine.gaps(id).next_ssn(stream).ok_or(OpenStreamError::Ended)?;
        self.route_now(now, id);
        let Some(cell) = self.table.cell_mut(id) else { return Ok(Some(next)) };
        let begins_anew = cell.routes.as_ref().is_some_and(|routes| routes.begins_anew(stream));
        Ok(if begins_anew || cell.restarts.is_some() { None } else { Some(next) })
    }

    /// Removes the reader of a stream.
    pub(crate) fn unclaim(&mut self, id: AssociationId, stream: StreamId) {
        if let Some(cell) = self.table.cell_mut(id)
            && let Some(routes) = &mut cell.routes
        {
            routes.unclaim(stream, &mut cell.read, &mut self.to_wake);
        }
    }
}

/// Returns what a reader gets at a restart or reset.
fn error_of(restart: &Restart) -> RecvError {
    match restart.anew {
        Anew::Peer => RecvError::Restarted,
        Anew::Streams(_) => RecvError::Reset,
        Anew::Nothing => RecvError::Abandoned,
    }
}

/// Takes the next message from the engine, or the restart that cut off the one before it.
fn recv_unrouted(engine: &mut Engine, cell: &mut Cell, now: Time, id: AssociationId) -> Option<Item> {
    if let Some(restart) = cell.take_cut() {
        return Some(Item::Restart(restart));
    }
    let message = engine.recv(now, id)?;
    cell.count_taken(1);
    Some(Item::Message(message))
}

#[cfg(test)]
mod tests;
