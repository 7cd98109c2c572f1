//! Notifications of one association.

use std::sync::Arc;

use crate::handle::Handle;
use crate::notification::Notification;
use crate::shard::attempt::Attempt;
use crate::shard::place::Place;

/// Notifications of one association, from [`Association::events`](crate::Association::events).
#[derive(Debug, Clone)]
pub struct Events {
    handle: Arc<Handle>,
}

impl Events {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    /// The next notification; `None` behind the last, [`Notification::Closed`].
    ///
    /// # Cancel safety
    /// No notification is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Notification> {
        let id = self.handle.id();
        let place = Place::Notification(id);
        Attempt::new(self.handle.shard(), place, |state, _| state.poll_notification(id)).await
    }
}
