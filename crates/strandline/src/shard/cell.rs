//! What an association has in the socket layer when somebody holds it or waits for it.

use std::task::Waker;

use strandline_proto::event::CloseReason;

use super::routes::Routes;
use crate::notification::{Notification, NotificationQueue};
use crate::wait::{Line, WaitQueue};

#[derive(Debug, Default)]
pub(crate) struct Cell {
    /// Who waits for a message.
    pub(crate) read: WaitQueue,
    /// Tasks that wait for room in the send buffer.
    pub(crate) write: Line,
    /// Who waits for the association to be established or to end.
    pub(crate) change: WaitQueue,
    /// Streams that are read by handles of their own.
    pub(crate) routes: Option<Box<Routes>>,
    /// Notifications, if the application asked for them.
    pub(crate) notifications: Option<Box<NotificationQueue<Notification>>>,
    /// Why it ended, once it has.
    pub(crate) outcome: Option<Box<CloseReason>>,
    pub(crate) established: bool,
    /// The peer shuts down: nothing new will arrive.
    pub(crate) peer_done: bool,
}

impl Cell {
    /// Adds a notification, if somebody asked for them.
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

    /// Wakes whoever waits for a message, on whichever stream.
    pub(crate) fn wake_readers(&mut self, to_wake: &mut Vec<Waker>) {
        self.read.wake_all(to_wake);
        if let Some(routes) = &mut self.routes {
            routes.wake_all(to_wake);
        }
    }

    /// Wakes everybody: it has ended.
    pub(crate) fn wake_all(&mut self, to_wake: &mut Vec<Waker>) {
        self.wake_readers(to_wake);
        self.write.dissolve(to_wake);
        self.change.wake_all(to_wake);
        if let Some(queue) = &mut self.notifications {
            queue.waiters.wake_all(to_wake);
        }
    }

    /// True if nobody waits and nothing is kept here.
    pub(crate) fn is_idle(&self) -> bool {
        self.read.is_empty()
            && self.write.is_empty()
            && self.change.is_empty()
            && self.routes.is_none()
            && self.notifications.is_none()
            && self.outcome.is_none()
    }
}
