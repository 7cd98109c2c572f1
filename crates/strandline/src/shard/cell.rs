//! The socket layer's state of an association with a handle or with waiting tasks.

use std::task::Waker;

use strandline_proto::event::CloseReason;
use strandline_proto::number::StreamId;
use strandline_proto::reconfiguration::Streams;

use super::restarts::{Anew, Restart, Restarts};
use super::routes::Routes;
use crate::notification::{Notification, NotificationQueue};
use crate::wait::{Line, WaitQueue};

#[derive(Debug, Default)]
pub(crate) struct Cell {
    /// Tasks that wait for a message.
    pub(crate) read: WaitQueue,
    /// Tasks that wait for room in the send buffer.
    pub(crate) write: Line,
    /// Tasks that wait for the association to be established or to end.
    pub(crate) change: WaitQueue,
    /// Streams with their own reader.
    pub(crate) routes: Option<Box<Routes>>,
    /// Restarts of the peer behind messages that the engine still holds.
    pub(crate) restarts: Option<Box<Restarts>>,
    /// Notifications, if the application asked for them.
    pub(crate) notifications: Option<Box<NotificationQueue<Notification>>>,
    /// How the association ended, once it has.
    pub(crate) outcome: Option<Box<CloseReason>>,
    pub(crate) established: bool,
    /// The peer is shutting down: no new messages will arrive.
    pub(crate) peer_done: bool,
}

impl Cell {
    /// Queues a notification if the application asked for them.
    pub(crate) fn notify(
        &mut self,
        notification: impl FnOnce() -> Option<Notification>,
        to_wake: &mut Vec<Waker>,
    ) {
        if let Some(queue) = &mut self.notifications
            && let Some(notification) = notification()
        {
            queue.push(notification);
            queue.waiters.wake_all(to_wake);
        }
    }

    /// Counts messages taken from the engine towards the next restart.
    #[inline]
    pub(crate) fn count_taken(&mut self, count: usize) {
        if let Some(restarts) = &mut self.restarts {
            restarts.advance(count);
        }
    }

    /// Returns the number of messages that may be taken from the engine before the next restart.
    pub(crate) fn before_restart(&self) -> usize {
        self.restarts.as_ref().map_or(usize::MAX, |restarts| restarts.ahead())
    }

    /// Removes the next restart if all messages before it were taken from the engine.
    #[inline]
    pub(crate) fn take_restart(&mut self) -> Option<Restart> {
        let due = self.restarts.as_mut()?.take_due();
        self.forget_reached_restarts();
        due
    }

    /// Removes restarts that readers have reached. Returns the first that cut off a message.
    #[inline]
    pub(crate) fn take_cut(&mut self) -> Option<Restart> {
        while let Some(restart) = self.take_restart() {
            if restart.cut.is_some() {
                return Some(restart);
            }
        }
        None
    }

    /// Returns whether the next read without a stream of its own reports a restart that cut off a message.
    pub(crate) fn restart_is_next(&self) -> bool {
        match &self.routes {
            Some(routes) => routes.restart_is_next(),
            None => self.restarts.as_ref().is_some_and(|restarts| restarts.cut_is_due()),
        }
    }

    /// Frees the list of restarts once it is empty.
    pub(crate) fn forget_reached_restarts(&mut self) {
        if self.restarts.as_ref().is_some_and(|restarts| restarts.is_empty()) {
            self.restarts = None;
        }
    }

    /// Records that streams were reset, for everybody who got a part of a message that was `cut` off, and for
    /// the readers of single streams. Also for readers that are registered while the messages from before the
    /// reset are unread.
    pub(crate) fn push_reset(
        &mut self,
        streams: &Streams,
        unread: usize,
        cut: Option<StreamId>,
        to_wake: &mut Vec<Waker>,
    ) {
        if self.routes.is_none() && unread == 0 && cut.is_none() {
            return;
        }
        let restart = Restart { cut, anew: Anew::Streams(streams.clone()) };
        self.restarts.get_or_insert_default().push(unread, restart);
        self.wake_readers(to_wake);
    }

    /// Records that the peer gave up a message of which a part was handed over or will be.
    pub(crate) fn push_cut(&mut self, stream: StreamId, unread: usize, to_wake: &mut Vec<Waker>) {
        let restart = Restart { cut: Some(stream), anew: Anew::Nothing };
        self.restarts.get_or_insert_default().push(unread, restart);
        self.wake_readers(to_wake);
    }

    /// Wakes all tasks that wait for a message on any stream.
    pub(crate) fn wake_readers(&mut self, to_wake: &mut Vec<Waker>) {
        self.read.wake_all(to_wake);
        if let Some(routes) = &mut self.routes {
            routes.wake_all(to_wake);
        }
    }

    /// Fails all tasks that wait for the number of a stream: no more streams are opened.
    pub(crate) fn refuse_openers(&mut self, to_wake: &mut Vec<Waker>) {
        if let Some(dynamic) = self.routes.as_mut().and_then(|routes| routes.dynamic.as_mut()) {
            dynamic.openers.dissolve(to_wake);
        }
    }

    /// Wakes all tasks: the association has ended.
    pub(crate) fn wake_all(&mut self, to_wake: &mut Vec<Waker>) {
        self.wake_readers(to_wake);
        self.refuse_openers(to_wake);
        self.write.dissolve(to_wake);
        self.change.wake_all(to_wake);
        if let Some(queue) = &mut self.notifications {
            queue.waiters.wake_all(to_wake);
        }
    }

    /// Returns whether no task waits and nothing is stored here.
    pub(crate) fn is_idle(&self) -> bool {
        self.read.is_empty()
            && self.write.is_empty()
            && self.change.is_empty()
            && self.routes.is_none()
            && self.restarts.is_none()
            && self.notifications.is_none()
            && self.outcome.is_none()
    }
}
