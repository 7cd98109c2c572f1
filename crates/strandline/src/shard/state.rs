//! The state protected by a shard's lock.

use std::collections::HashSet;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use strandline_proto::endpoint::StreamCredits;
use strandline_proto::error::UnknownAssociation;
use strandline_proto::event::AssociationId;
use strandline_proto::memory::TakenBytes;
use strandline_proto::number::StreamId;
use strandline_proto::time::Time;

use super::follow::Following;
use super::outbox::Outbox;
use super::place::Place;
use super::secure::Secure;
use super::socket::{Phase, Sockets};
use super::table::{Owner, Table, dynamic_of};
use crate::engine::Engine;
use crate::wait::{Token, WaitQueue};

/// Number of slots visited in one round of the driver to shut down the associations of a dropped endpoint.
const SWEEP_STEP: u32 = 1024;

/// Time after which it is seen again whether all associations together hold less.
const HELD_BACK_FOR: Duration = Duration::from_millis(100);

/// A dropped one-to-many endpoint whose associations are being shut down, a few at a time.
#[derive(Debug, Clone, Copy)]
struct Sweep {
    socket: u32,
    next_slot: u32,
}

/// Returns when the driver must look for room in the memory of all associations, if one waits for it.
pub(crate) fn next_look(state: &State, now: Time) -> Option<Time> {
    (!state.held_back.is_empty()).then(|| now + HELD_BACK_FOR)
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) engine: Engine,
    pub(crate) table: Table,
    pub(crate) sockets: Sockets,
    pub(crate) out: Outbox,
    /// The driver's waker; `None` while it runs or has already been woken.
    pub(crate) driver: Option<Waker>,
    /// The time that the driver's alarm is set to.
    pub(crate) armed: Time,
    /// When the clock was last read.
    pub(crate) now: Time,
    /// Bytes of small messages sent on the fast path since then.
    pub(crate) row_bytes: usize,
    /// Messages have arrived for a task, or it may open streams, since the driver last checked: it may have something
    /// to send at once.
    pub(crate) readable: bool,
    /// Tasks to wake once the lock is released.
    pub(crate) to_wake: Vec<Waker>,
    /// No handle of the stack is left: the driver ends with the last association.
    pub(crate) orphaned: bool,
    /// The driver has ended: no operation can succeed any more.
    pub(crate) gone: bool,
    /// Tasks that wait for the last association to end.
    pub(crate) idle: WaitQueue,
    /// The stream that had no room for the message of the latest attempt to send, although the send buffer had.
    pub(crate) blocked_stream: Option<StreamId>,
    /// Associations whose messages must be moved to the queues of their readers.
    pub(super) to_route: Vec<AssociationId>,
    /// Messages that were taken from the engine and not read.
    pub(crate) taken: Arc<TakenBytes>,
    /// Associations whose messages stay in the engine until all associations together hold less.
    pub(super) held_back: HashSet<AssociationId>,
    sweeps: Vec<Sweep>,
    /// Set if packets are encrypted.
    pub(crate) secure: Option<Box<Secure>>,
    /// Set if the associations follow the addresses of this host.
    pub(crate) following: Option<Box<Following>>,
}

impl State {
    pub(crate) fn new(engine: Engine, taken: Arc<TakenBytes>, mixed_trains: bool) -> Self {
        Self {
            engine,
            table: Table::default(),
            sockets: Sockets::default(),
            out: Outbox::new(mixed_trains),
            driver: None,
            armed: Time::MAX,
            now: Time::ZERO,
            row_bytes: 0,
            readable: false,
            to_wake: Vec::new(),
            orphaned: false,
            gone: false,
            idle: WaitQueue::default(),
            blocked_stream: None,
            to_route: Vec::new(),
            taken,
            held_back: HashSet::new(),
            sweeps: Vec::new(),
            secure: None,
            following: None,
        }
    }

    pub(crate) fn wake_driver(&mut self) {
        self.to_wake.extend(self.driver.take());
    }

    /// Returns the queue for a place, if its association or socket exists.
    fn queue(&mut self, place: Place) -> Option<&mut WaitQueue> {
        match place {
            Place::Read(id) => Some(&mut self.table.get_mut(id)?.cell_mut().read),
            Place::ReadStream(id, stream) => self.table.cell_mut(id)?.routes.as_mut()?.waiters(stream),
            Place::Change(id) => Some(&mut self.table.get_mut(id)?.cell_mut().change),
            Place::Notification(id) => Some(&mut self.table.cell_mut(id)?.notifications.as_mut()?.waiters),
            Place::Accept(socket) => Some(&mut self.sockets.listener(socket)?.waiters.takers),
            Place::WatchAccept(socket) => Some(&mut self.sockets.listener(socket)?.waiters.watchers),
            Place::WatchMany(socket) => Some(&mut self.sockets.many(socket)?.read.watchers),
            Place::ReadMany(socket) => Some(&mut self.sockets.many(socket)?.read.takers),
            Place::NotificationMany(socket) => {
                Some(&mut self.sockets.many(socket)?.notifications.as_mut()?.waiters)
            }
            Place::Idle => Some(&mut self.idle),
            Place::ReadDynamic(id, key) => {
                Some(&mut dynamic_of(&mut self.table, id)?.queue_mut(key)?.waiters)
            }
            Place::Finish(id, key) => Some(&mut dynamic_of(&mut self.table, id)?.get_mut(key)?.waiters),
            Place::AcceptStream(id) => Some(&mut dynamic_of(&mut self.table, id)?.takers),
            // These have a queue of their own: see `Line`.
            Place::Write(..) | Place::WritePolled(..) | Place::OpenStream(_) => None,
        }
    }

    /// Returns whether a task may try now: tasks that wait for room in the same send buffer, or for a number
    /// of a stream, go first.
    pub(crate) fn is_turn(&mut self, place: Place, token: Token) -> bool {
        if let Place::OpenStream(id) = place {
            return dynamic_of(&mut self.table, id)
                .is_none_or(|dynamic| dynamic.openers.is_turn(token, None));
        }
        let cell = place.written().and_then(|id| self.table.cell_mut(id));
        cell.is_none_or(|cell| cell.write.is_turn(token, place.stream()))
    }

    /// Tries for a sender that is not queued: pending if others wait.
    pub(crate) fn in_turn<T>(
        &mut self,
        id: AssociationId,
        stream: StreamId,
        run: impl FnOnce(&mut Self) -> Poll<T>,
    ) -> Poll<T> {
        if self.is_turn(Place::Write(id, stream), None) { run(self) } else { Poll::Pending }
    }

    /// Fails all tasks that wait for room: the association takes no more messages.
    pub(crate) fn refuse_writers(&mut self, id: AssociationId) {
        if let Some(cell) = self.table.cell_mut(id) {
            cell.write.dissolve(&mut self.to_wake);
            cell.refuse_openers(&mut self.to_wake);
        }
    }

    /// Queues a waiting task. Returns false if there is nothing left to wait for.
    pub(crate) fn wait(&mut self, place: Place, token: &mut Token, waker: &Waker) -> bool {
        if self.gone {
            return false;
        }
        if let Some(id) = place.written() {
            let may_be_gone = matches!(place, Place::WritePolled(..));
            let stream = place.stream();
            let has_room = self.blocked_stream.take().is_none();
            let Some(entry) = self.table.get_mut(id) else { return false };
            let line = &mut entry.cell_mut().write;
            let blocked = !has_room || stream.is_some_and(|stream| line.is_behind(*token, stream));
            line.register(token, waker, may_be_gone, stream, blocked);
            if blocked {
                // The room that this task was woken for is for those behind it.
                line.wake_next(&mut self.to_wake);
            }
            return true;
        }
        if let Place::OpenStream(id) = place {
            let openers = dynamic_of(&mut self.table, id).map(|dynamic| &mut dynamic.openers);
            return openers.map(|line| line.register(token, waker, false, None, false)).is_some();
        }
        self.queue(place).map(|queue| queue.register(token, waker)).is_some()
    }

    /// Removes a future that completed or was dropped. With `passes_on`, its turn goes to the next task.
    pub(crate) fn stop_waiting(&mut self, place: Place, token: Token, passes_on: bool) {
        if token.is_none() {
            return;
        }
        if let Some(id) = place.written() {
            if let Some(cell) = self.table.cell_mut(id) {
                cell.write.leave(token, &mut self.to_wake);
            }
            return self.drop_idle_cell(id);
        }
        let mut to_wake = std::mem::take(&mut self.to_wake);
        if let Place::OpenStream(id) = place
            && let Some(dynamic) = dynamic_of(&mut self.table, id)
        {
            dynamic.openers.leave(token, &mut to_wake);
        }
        if let Some(queue) = self.queue(place)
            && !queue.remove(token)
            && passes_on
            && place.wakes_one()
        {
            queue.wake_one(&mut to_wake);
        }
        self.to_wake = to_wake;
        if let Place::Change(id) = place {
            self.drop_idle_cell(id);
        }
    }

    /// Frees the cell of an endpoint's association once no task waits there.
    pub(crate) fn drop_idle_cell(&mut self, id: AssociationId) {
        if let Some(entry) = self.table.get_mut(id)
            && matches!(entry.owner(), Some(Owner::OneToMany(_)))
            && entry.cell.as_ref().is_some_and(|cell| cell.is_idle())
        {
            entry.cell = None;
        }
    }

    /// Releases an association whose owner is gone: it is shut down, and received messages are discarded.
    pub(crate) fn orphan(&mut self, now: Time, id: AssociationId) {
        let Some(entry) = self.table.get_mut(id) else { return };
        let ended = entry.cell.as_ref().is_some_and(|cell| cell.outcome.is_some());
        entry.cell = None;
        if ended {
            self.give_back(id);
            return;
        }
        self.table.set_owner(id, Owner::Orphan);
        StreamCredits::of(&mut self.engine, id).discard();
        if self.end(now, id).is_err() {
            self.give_back(id);
            return;
        }
        self.drain_unread(now, id);
        self.engine.release(id);
    }

    /// Begins the graceful shutdown.
    pub(crate) fn end(&mut self, now: Time, id: AssociationId) -> Result<(), UnknownAssociation> {
        // An association that is not established and has nothing to deliver is aborted rather than shut down.
        let pointless =
            self.engine.status(id).is_some_and(|status| status.send_buffered == 0 && status.state.in_setup());
        if pointless {
            self.engine.abort(now, id, bytes::Bytes::new())
        } else {
            self.refuse_writers(id);
            self.engine.shutdown(now, id)
        }
    }

    /// Discards messages that will never be read, so that the peer can finish.
    pub(crate) fn drain_unread(&mut self, now: Time, id: AssociationId) {
        while self.engine.recv(now, id).is_some() {}
    }

    /// Frees an association that has ended and has no user left.
    pub(crate) fn give_back(&mut self, id: AssociationId) {
        self.engine.release(id);
        self.table.remove(id);
        self.held_back.remove(&id);
        if self.table.len() == 0 {
            self.idle.wake_all(&mut self.to_wake);
            if self.orphaned {
                self.wake_driver();
            }
        }
    }

    /// Closes a dropped one-to-many endpoint: its associations are shut down, a few at a time.
    pub(crate) fn close_many(&mut self, socket: u32) {
        let open = self.sockets.many(socket).is_some_and(|many| many.phase == Phase::Open);
        if let Some(port) = self.sockets.close_many(socket) {
            if open {
                self.engine.close_listener(port);
            }
            self.sweeps.push(Sweep { socket, next_slot: 0 });
            self.wake_driver();
        }
    }

    /// Continues to shut down the associations of dropped endpoints. Returns whether there is more to do.
    pub(crate) fn sweep(&mut self, now: Time) -> bool {
        let Some(sweep) = self.sweeps.pop() else { return false };
        let end = sweep.next_slot.saturating_add(SWEEP_STEP).min(self.table.slots());
        for slot in sweep.next_slot..end {
            if let Some((id, Owner::OneToMany(socket))) = self.table.in_slot(slot)
                && socket == sweep.socket
            {
                self.orphan(now, id);
            }
        }
        if end < self.table.slots() {
            self.sweeps.push(Sweep { next_slot: end, ..sweep });
        } else {
            self.sockets.remove(sweep.socket);
        }
        !self.sweeps.is_empty()
    }

    /// Returns whether the driver can end.
    pub(crate) fn is_finished(&self) -> bool {
        self.orphaned && self.table.len() == 0 && self.sweeps.is_empty() && !self.out.is_blocked()
    }

    /// Marks the driver as ended and wakes all waiting tasks.
    pub(crate) fn set_gone(&mut self) {
        use super::socket::Socket;
        self.gone = true;
        for slot in 0..self.table.slots() {
            if let Some((id, _)) = self.table.in_slot(slot)
                && let Some(cell) = self.table.cell_mut(id)
            {
                cell.wake_all(&mut self.to_wake);
            }
        }
        for socket in self.sockets.all() {
            match socket {
                Socket::Listener(listener) => listener.waiters.wake_all(&mut self.to_wake),
                Socket::Many(many) => {
                    many.read.wake_all(&mut self.to_wake);
                    if let Some(queue) = &mut many.notifications {
                        queue.waiters.wake_all(&mut self.to_wake);
                    }
                }
                Socket::Closing => {}
            }
        }
        self.idle.wake_all(&mut self.to_wake);
    }
}
