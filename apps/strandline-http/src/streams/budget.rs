//! What the associations of a server or a client hold together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Limits of all associations together whose [`Settings`](super::Settings) are clones of one another, such as those of
/// one server or one [`Connector`](crate::Connector). Clones share what is counted.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bytes_max: usize,
    connections_max: usize,
    bytes: AtomicUsize,
    connections: AtomicUsize,
    /// Notified when there is room for more bytes again.
    room: Notify,
}

impl Default for Budget {
    /// 256 MiB and 16,384 connections.
    fn default() -> Self {
        Self::new(Self::BYTES_MAX, 16_384)
    }
}

/// Two budgets are equal if their limits are.
impl PartialEq for Budget {
    fn eq(&self, other: &Self) -> bool {
        let limits = |budget: &Self| (budget.0.bytes_max, budget.0.connections_max);
        limits(self) == limits(other)
    }
}

impl Eq for Budget {}

impl Budget {
    /// Bytes that all associations hold by default.
    pub(crate) const BYTES_MAX: usize = 256 << 20;

    /// Creates a budget. `bytes_max` are the bytes that streams hold for their readers: beyond them an association
    /// takes nothing more from its peer until its own readers have read all that they have. `connections_max` are the
    /// connections that servers have open: further ones are reset.
    #[must_use]
    pub fn new(bytes_max: usize, connections_max: usize) -> Self {
        let (bytes, connections) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self(Arc::new(Inner { bytes_max, connections_max, bytes, connections, room: Notify::new() }))
    }

    /// Returns whether all bytes are used.
    pub(super) fn is_full(&self) -> bool {
        self.0.bytes.load(Ordering::Relaxed) >= self.0.bytes_max
    }

    /// Completes when bytes have become free after all were used, from the time of this call on.
    pub(super) fn room(&self) -> Notified<'_> {
        self.0.room.notified()
    }

    /// Counts a connection; `None` if there are too many.
    pub(super) fn connection(&self) -> Option<Counted> {
        let counted = self.0.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
            (count < self.0.connections_max).then_some(count + 1)
        });
        counted.is_ok().then(|| Counted(self.clone()))
    }
}

/// A connection that counts until it is dropped.
#[derive(Debug)]
pub(super) struct Counted(Budget);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The bytes that one association holds. They count until they are released, or this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: usize,
    budget: Budget,
}

impl Held {
    pub(super) const fn new(budget: Budget) -> Self {
        Self { bytes: 0, budget }
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.budget.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn release(&mut self, bytes: usize) {
        self.bytes -= bytes;
        let inner = &self.budget.0;
        let before = inner.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before >= inner.bytes_max && before - bytes < inner.bytes_max {
            inner.room.notify_waiters();
        }
    }

    /// Returns whether the association is to hold no more. While the budget is used up, it still takes what comes when
    /// it holds nothing, so that others can't stop it.
    pub(super) fn is_full(&self, bytes_max: usize) -> bool {
        self.bytes >= bytes_max || (self.bytes > 0 && self.budget.is_full())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}
