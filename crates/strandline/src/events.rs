//! Notifications of one association.

use std::sync::Arc;
use std::task::Poll;

use crate::error::NoNotification;
use crate::handle::Handle;
use crate::notification::Notification;
use crate::shard::attempt::Attempt;
use crate::shard::place::Place;

/// Receiver of one association's notifications, from [`Association::events`](crate::Association::events).
#[derive(Debug, Clone)]
pub struct Events {
    handle: Arc<Handle>,
}

impl Events {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    /// Receives the next notification; `None` after the last one, [`Notification::Closed`].
    ///
    /// # Cancel safety
    /// Dropping the future loses no notification.
    pub async fn next(&mut self) -> Option<Notification> {
        let id = self.handle.id();
        let place = Place::Notification(id);
        Attempt::new(self.handle.shard(), place, |state, _| state.poll_notification(id)).await
    }

    /// Receives as [`next`](Self::next) does, or returns at once.
    ///
    /// # Errors
    /// [`NoNotification`] if the call would have to wait.
    pub fn try_next(&mut self) -> Result<Option<Notification>, NoNotification> {
        let id = self.handle.id();
        match self.handle.shard().with(|state, _| state.poll_notification(id)) {
            Poll::Ready(next) => Ok(next),
            Poll::Pending => Err(NoNotification),
        }
    }
}
