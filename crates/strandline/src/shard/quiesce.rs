//! Stops sockets from taking new associations, and ends all associations of a one-to-many endpoint.

use std::task::Poll;

use strandline_proto::event::AssociationId;
use strandline_proto::time::Time;

use super::socket::Phase;
use super::state::State;
use super::table::Owner;

impl State {
    /// Stops a listener from taking new associations; established ones can still be accepted.
    pub(crate) fn stop_listener(&mut self, socket: u32) {
        let Some(listener) = self.sockets.listener(socket) else { return };
        let was_stopped = std::mem::replace(&mut listener.stopped, true);
        listener.waiters.wake_all(&mut self.to_wake);
        if !was_stopped && let Some(port) = self.sockets.leave_port(socket) {
            self.engine.close_listener(port);
        }
    }

    /// Stops a one-to-many endpoint from taking associations that peers set up, or any new associations.
    pub(crate) fn stop_many(&mut self, socket: u32, phase: Phase) {
        let Some(many) = self.sockets.many(socket) else { return };
        let before = many.phase;
        if before != Phase::ShuttingDown {
            many.phase = phase;
        }
        if before == Phase::Open
            && let Some(port) = self.sockets.leave_port(socket)
        {
            self.engine.close_listener(port);
        }
        self.wake_if_finished(socket);
    }

    /// Returns whether the endpoint takes no new associations at all.
    pub(crate) fn is_shutting_down(&mut self, socket: u32) -> bool {
        self.sockets.many(socket).is_none_or(|many| many.phase == Phase::ShuttingDown)
    }

    /// Returns whether the endpoint takes no new associations and has none left on this shard.
    pub(crate) fn is_finished_many(&mut self, socket: u32) -> bool {
        self.is_shutting_down(socket) && !self.table.has_any_of(socket)
    }

    /// Wakes tasks that wait for messages or notifications which will never arrive.
    pub(crate) fn wake_if_finished(&mut self, socket: u32) {
        if !self.is_finished_many(socket) {
            return;
        }
        if let Some(many) = self.sockets.many(socket) {
            many.read.wake_all(&mut self.to_wake);
            if let Some(queue) = &mut many.notifications {
                queue.waiters.wake_all(&mut self.to_wake);
            }
        }
    }

    /// Begins the graceful shutdown of an endpoint's associations, from a slot on. Returns those that have not
    /// ended, and the slot to continue from.
    pub(crate) fn end_many(
        &mut self,
        now: Time,
        socket: u32,
        from: u32,
        limit: u32,
    ) -> (Vec<AssociationId>, Option<u32>) {
        let (mut some, next) = self.list(socket, from, limit);
        some.retain(|id| !self.has_ended(*id) && self.end(now, *id).is_ok());
        (some, next)
    }

    fn has_ended(&self, id: AssociationId) -> bool {
        let cell = self.table.get(id).and_then(|entry| entry.cell.as_deref());
        cell.is_some_and(|cell| cell.outcome.is_some())
    }

    /// Ready once an association has ended or no longer belongs to the endpoint.
    pub(crate) fn poll_ended_many(&self, socket: u32, id: AssociationId) -> Poll<()> {
        let owner = self.table.get(id).and_then(|entry| entry.owner());
        let is_its = owner == Some(Owner::OneToMany(socket));
        if self.gone || !is_its || self.has_ended(id) { Poll::Ready(()) } else { Poll::Pending }
    }
}
