//! Operations of one-to-many endpoints.

use std::task::Poll;

use strandline_proto::endpoint::Listen;
use strandline_proto::event::{AssociationId, Message};
use strandline_proto::time::Time;

use super::readable::leave_front;
use super::socket::{Kind, ListenerState, ManyState, Socket};
use super::state::State;
use super::table::Owner;
use crate::error::{AcceptError, BindError, Ended, RecvError, UnknownAssociation};
use crate::notification::{Notification, NotificationQueue};
use crate::wait::Takers;

/// Limit of messages read from one association in a row while others have messages.
const TURN_MAX: u32 = 16;

/// Limit of notifications queued for one endpoint.
const NOTIFICATIONS_MAX: usize = 1 << 16;

impl State {
    /// Binds a socket to a port; 0 picks one.
    pub(crate) fn bind(&mut self, kind: Kind, listen: Listen) -> Result<(u32, u16), BindError> {
        if self.gone {
            return Err(BindError::StackClosed);
        }
        let port = self.engine.listen(listen)?;
        let socket = match kind {
            Kind::Listener { backlog } => Socket::Listener(ListenerState {
                backlog,
                queue: std::collections::VecDeque::new(),
                waiters: Takers::default(),
                refused: 0,
                stopped: false,
            }),
            Kind::Many => Socket::Many(ManyState::default()),
        };
        Ok((self.sockets.insert(port, socket), port))
    }

    pub(crate) fn poll_accept(&mut self, socket: u32) -> Poll<Result<AssociationId, AcceptError>> {
        let next = self.sockets.listener(socket).and_then(|listener| {
            let next = listener.queue.pop_front()?;
            if !listener.queue.is_empty() {
                listener.waiters.wake_one(&mut self.to_wake);
            }
            Some(next)
        });
        match next {
            Some(id) => Poll::Ready(Ok(id)),
            None if self.gone => Poll::Ready(Err(AcceptError::StackClosed)),
            None if self.sockets.listener(socket).is_none_or(|listener| listener.stopped) => {
                Poll::Ready(Err(AcceptError::Stopped))
            }
            None => Poll::Pending,
        }
    }

    /// Closes a dropped listener: associations that were not accepted are aborted.
    pub(crate) fn close_listener(&mut self, now: Time, socket: u32) {
        let Some((port, Socket::Listener(listener))) = self.sockets.remove(socket) else { return };
        if !listener.stopped {
            self.engine.close_listener(port);
        }
        for id in listener.queue {
            let reason = bytes::Bytes::from_static(b"the listener was closed");
            let _ = self.engine.abort(now, id, reason);
            self.orphan(now, id);
        }
    }

    /// Receives the next message of any association.
    pub(crate) fn poll_recv_many(
        &mut self,
        now: Time,
        socket: u32,
    ) -> Poll<Result<(AssociationId, Message), RecvError>> {
        while let Some(many) = self.sockets.many(socket)
            && let Some(id) = many.ready.front().copied()
        {
            let entry =
                self.table.get_mut(id).filter(|entry| entry.owner() == Some(Owner::OneToMany(socket)));
            if let Some(entry) = entry
                && let Some(message) = self.engine.recv(now, id)
            {
                if let Some(cell) = &mut entry.cell {
                    // Reported by a notification; see `peel_off`.
                    while cell.take_restart().is_some() {}
                    cell.count_taken(1);
                }
                many.turn += 1;
                if many.turn >= TURN_MAX {
                    many.turn = 0;
                    many.ready.rotate_left(1);
                }
                many.read.wake_one(&mut self.to_wake);
                return Poll::Ready(Ok((id, message)));
            }
            leave_front(self, socket, id);
        }
        match () {
            () if self.gone => Poll::Ready(Err(Ended::StackClosed.into())),
            () if self.is_finished_many(socket) => Poll::Ready(Err(Ended::ShutDown.into())),
            () => Poll::Pending,
        }
    }

    /// Receives the messages that have arrived, up to a limit.
    pub(crate) fn poll_recv_many_batch(
        &mut self,
        now: Time,
        socket: u32,
        limit: usize,
        mut take: impl FnMut(AssociationId, Message),
    ) -> Poll<Result<usize, RecvError>> {
        for count in 0..limit {
            match self.poll_recv_many(now, socket) {
                Poll::Ready(Ok((id, message))) => take(id, message),
                Poll::Pending if count == 0 => return Poll::Pending,
                Poll::Ready(Err(error)) if count == 0 => return Poll::Ready(Err(error)),
                _ => return Poll::Ready(Ok(count)),
            }
        }
        Poll::Ready(Ok(limit))
    }

    pub(crate) fn subscribe_many(&mut self, socket: u32) {
        if let Some(many) = self.sockets.many(socket) {
            many.notifications.get_or_insert_with(|| NotificationQueue::new(NOTIFICATIONS_MAX));
        }
    }

    pub(crate) fn poll_notification_many(
        &mut self,
        socket: u32,
    ) -> Poll<Option<Result<(AssociationId, Notification), u64>>> {
        let many = self.sockets.many(socket);
        match many.and_then(|many| many.notifications.as_mut()?.pop()) {
            Some(item) => Poll::Ready(Some(item)),
            None if self.gone || self.is_finished_many(socket) => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Takes an association out of an endpoint, for a one-to-one handle.
    pub(crate) fn peel_off(&mut self, socket: u32, id: AssociationId) -> Result<(), UnknownAssociation> {
        let entry = self.table.get_mut(id).ok_or(UnknownAssociation)?;
        if entry.owner() != Some(Owner::OneToMany(socket)) {
            return Err(UnknownAssociation);
        }
        entry.queued = false;
        let cell = entry.cell_mut();
        cell.established = true;
        // It no longer belongs to the endpoint: tasks that wait to send through the endpoint fail.
        cell.write.dissolve(&mut self.to_wake);
        self.table.set_owner(id, Owner::OneToOne);
        self.wake_if_finished(socket);
        Ok(())
    }

    /// Gives an association that was set up with a handle to a one-to-many endpoint. Returns false if the
    /// endpoint takes no more associations.
    pub(crate) fn adopt(&mut self, socket: u32, id: AssociationId) -> bool {
        if self.is_shutting_down(socket) {
            return false;
        }
        self.table.set_owner(id, Owner::OneToMany(socket));
        let outcome = self.table.cell_mut(id).and_then(|cell| cell.outcome.take());
        // It may have become readable while the handle had it.
        if let (Some(entry), Some(many)) = (self.table.get_mut(id), self.sockets.many(socket)) {
            entry.queued = true;
            many.ready.push_back(id);
            many.read.wake_one(&mut self.to_wake);
            if let Some(reason) = outcome {
                entry.cell_mut().outcome = Some(reason);
            }
        }
        self.drop_idle_cell(id);
        true
    }

    /// Lists associations of an endpoint from a slot on: at most `limit` of them, and the slot to continue
    /// from.
    pub(crate) fn list(&self, socket: u32, from: u32, limit: u32) -> (Vec<AssociationId>, Option<u32>) {
        let end = from.saturating_add(limit).min(self.table.slots());
        let mine = |slot| match self.table.in_slot(slot) {
            Some((id, Owner::OneToMany(owner))) if owner == socket => Some(id),
            _ => None,
        };
        ((from..end).filter_map(mine).collect(), (end < self.table.slots()).then_some(end))
    }
}
