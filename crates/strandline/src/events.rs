//! Notifications of one association.

use std::sync::Arc;

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
}
