//! Notifications of a one-to-many endpoint.

use std::sync::Arc;
use std::task::Poll;

use strandline_proto::event::AssociationId as EngineId;

use crate::bound::Bound;
use crate::error::NoNotification;
use crate::id::AssociationId;
use crate::notification::Notification;
use crate::shard::any::{AnyAttempt, At, Finished, try_any};
use crate::shard::place::Place;
use crate::shard::state::State;

/// Receiver of a one-to-many endpoint's notifications, from
/// [`Endpoint::notifications`](crate::Endpoint::notifications). Clones share one queue: each notification is
/// delivered once.
///
/// This is also a handle to the endpoint: while it exists, the endpoint stays open.
///
/// ```
/// use strandline::{Association, Ended, Endpoint, Notification, Peer, Stack};
/// # use strandline::memory::Network;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
/// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
/// let endpoint = Endpoint::bind(&there, 7)?;
/// let mut notifications = endpoint.notifications();
/// let watcher = tokio::spawn(async move {
///     while let Some((_, notification)) = notifications.next().await {
///         if let Notification::Closed { how, addresses, stats, .. } = notification {
///             assert_eq!(how, Ended::ShutDown);
///             assert_eq!(addresses, [std::net::SocketAddr::from(([10, 0, 0, 1], 9899))]);
///             assert!(stats.packets_received > 0);
///         }
///     }
/// });
/// let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
/// client.shutdown().await;
/// endpoint.shutdown_all().await;
/// watcher.await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Notifications {
    bound: Arc<Bound>,
}

impl Notifications {
    pub(crate) fn new(bound: Arc<Bound>) -> Self {
        Self { bound }
    }

    /// Receives the next notification and its association. If notifications were lost because the queue was
    /// full, their number is returned as [`Notification::Missed`], without an association. Returns `None` if
    /// the stack is gone, or once the endpoint was [shut down](crate::Endpoint::shutdown_all), its last
    /// association has ended and everything was read.
    ///
    /// # Cancel safety
    /// Dropping the future loses no notification.
    pub async fn next(&mut self) -> Option<(Option<AssociationId>, Notification)> {
        let mut finished = Finished::of(self.bound.stack.shards.len());
        let attempt = |state: &mut State, _, at: At| {
            let next = state.poll_notification_many(at.socket).map(|item| item.ok_or(state.gone));
            finished.unless_all(at, next, |gone| !gone)
        };
        let socket = self.bound.everywhere();
        let (shard, item) = AnyAttempt::new(socket, Place::NotificationMany, attempt).await.ok()?;
        Some(with_id(shard, item))
    }

    /// Receives as [`next`](Self::next) does, or returns at once.
    ///
    /// # Errors
    /// [`NoNotification`] if the call would have to wait.
    pub fn try_next(&mut self) -> Result<Option<(Option<AssociationId>, Notification)>, NoNotification> {
        let mut finished = Finished::of(self.bound.stack.shards.len());
        let next = try_any(self.bound.everywhere(), |state, _, at| {
            let next = state.poll_notification_many(at.socket).map(|item| item.ok_or(state.gone));
            finished.unless_all(at, next, |gone| !gone)
        });
        match next {
            Poll::Ready(next) => Ok(next.ok().map(|(shard, item)| with_id(shard, item))),
            Poll::Pending => Err(NoNotification),
        }
    }
}

fn with_id(shard: u16, item: Result<(EngineId, Notification), u64>) -> (Option<AssociationId>, Notification) {
    match item {
        Ok((id, notification)) => (Some(AssociationId { shard, id }), notification),
        Err(missed) => (None, Notification::Missed(missed)),
    }
}
