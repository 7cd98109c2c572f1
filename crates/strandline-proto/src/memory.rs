//! Memory that all associations hold together: those of one endpoint, or of several endpoints that share an account,
//! such as the shards of a stack. Each endpoint counts its own memory exactly and reports changes to the account in
//! steps, so that the cores of a host rarely write to the same location.

#[cfg(test)]
mod tests;

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// What was taken from the endpoints stops an association at this fraction of the limit, divided among the
/// associations, while the limit is reached: as much as its endpoint may hold for it then.
const TAKEN_DIVISOR: u64 = 2;

/// An endpoint reports a change of at least this many bytes, or of this fraction of the limit if that is smaller.
/// With 64 endpoints and limits of 1 GiB the sum is exact to 16 MiB.
const STEP_MAX: u64 = 256 << 10;
const STEPS_OF_LIMIT: u64 = 4096;

/// The bytes that several endpoints hold together. `receive_bytes_max` and `send_bytes_max` of `EndpointConfig` then
/// apply to the sum; see its field `account`.
#[derive(Debug, Default)]
pub struct MemoryAccount {
    received: AtomicU64,
    sent: AtomicU64,
    associations: AtomicU32,
}

impl MemoryAccount {
    /// Returns the bytes received and not read, of all that share the account: accurate to a step for each of
    /// them, at most 256 KiB.
    #[must_use]
    pub fn received(&self) -> u64 {
        // What was added and removed at the same time may be counted in another order.
        self.received.load(Relaxed).cast_signed().max(0).cast_unsigned()
    }
}

/// Returns the step of a limit.
fn step_of(limit: u64) -> i64 {
    (limit / STEPS_OF_LIMIT).clamp(1, STEP_MAX).cast_signed()
}

/// Received bytes that were taken from endpoints and not read yet: they count for `receive_bytes_max` of the
/// endpoints with the same account. Any thread may change them.
#[derive(Debug)]
pub struct TakenBytes {
    account: Arc<MemoryAccount>,
    receive_bytes_max: u64,
    /// Bytes published to the account, and the change since then.
    published: AtomicI64,
    unpublished: AtomicI64,
}

impl TakenBytes {
    /// Begins with none. `receive_bytes_max` is that of the endpoints.
    #[must_use]
    pub const fn new(account: Arc<MemoryAccount>, receive_bytes_max: u64) -> Self {
        Self { account, receive_bytes_max, published: AtomicI64::new(0), unpublished: AtomicI64::new(0) }
    }

    /// Records that bytes were taken.
    #[inline]
    pub fn add(&self, bytes: usize) {
        self.change(signed(bytes));
    }

    /// Records that bytes were read or dropped, which were added before.
    #[inline]
    pub fn remove(&self, bytes: usize) {
        self.change(-signed(bytes));
    }

    /// Adds bytes until the returned value is dropped.
    #[must_use]
    pub fn hold(&self, bytes: usize) -> TakenBytesGuard<'_> {
        self.add(bytes);
        TakenBytesGuard { taken: self, bytes }
    }

    #[inline]
    fn change(&self, by: i64) {
        let unpublished = self.unpublished.fetch_add(by, Relaxed).wrapping_add(by);
        if unpublished.abs() >= step_of(self.receive_bytes_max) {
            self.publish();
        }
    }

    #[cold]
    #[inline(never)]
    fn publish(&self) {
        let change = self.unpublished.swap(0, Relaxed);
        self.published.fetch_add(change, Relaxed);
        self.account.received.fetch_add(change.cast_unsigned(), Relaxed);
    }

    /// Returns the bytes that were taken and not read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = self.published.load(Relaxed).wrapping_add(self.unpublished.load(Relaxed));
        bytes.max(0).cast_unsigned()
    }

    /// Returns whether the limit is reached, by all that share the account.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        let unpublished = self.unpublished.load(Relaxed);
        self.account.received().saturating_add_signed(unpublished) >= self.receive_bytes_max
    }

    /// Returns the bytes of one association that may be taken and unread while the limit is reached: a few
    /// associations that are not read must not starve the others.
    #[must_use]
    pub fn share(&self) -> u64 {
        let associations = self.account.associations.load(Relaxed).max(1);
        self.receive_bytes_max / TAKEN_DIVISOR / u64::from(associations)
    }
}

impl Drop for TakenBytes {
    fn drop(&mut self) {
        self.account.received.fetch_sub(self.published.get_mut().cast_unsigned(), Relaxed);
    }
}

/// Bytes that count as taken and unread until this value is dropped.
#[derive(Debug)]
pub struct TakenBytesGuard<'a> {
    taken: &'a TakenBytes,
    bytes: usize,
}

impl Drop for TakenBytesGuard<'_> {
    fn drop(&mut self) {
        self.taken.remove(self.bytes);
    }
}

/// Bytes of one kind that one endpoint holds.
#[derive(Debug)]
struct Held {
    /// Bytes published to the account.
    published: u64,
    /// Change since the last publication; negative if bytes were released.
    unpublished: i64,
    step: i64,
}

impl Held {
    fn new(limit: u64) -> Self {
        Self { published: 0, unpublished: 0, step: step_of(limit) }
    }

    /// Bytes are added before they are removed, so the sum is never negative.
    #[inline]
    fn bytes(&self) -> u64 {
        self.published.saturating_add_signed(self.unpublished)
    }

    #[inline]
    fn change(&mut self, by: i64, account: &AtomicU64) {
        self.unpublished += by;
        debug_assert!(self.published.checked_add_signed(self.unpublished).is_some(), "more went than came");
        if self.unpublished >= self.step || self.unpublished <= -self.step {
            self.publish(account);
        }
    }

    /// Publishes the change to the account. A negative change wraps, but the sum of all endpoints does not.
    #[cold]
    #[inline(never)]
    fn publish(&mut self, account: &AtomicU64) {
        let bytes = self.bytes();
        account.fetch_add(bytes.wrapping_sub(self.published), Relaxed);
        (self.published, self.unpublished) = (bytes, 0);
    }

    #[inline]
    fn in_all(&self, account: &AtomicU64) -> u64 {
        account.load(Relaxed).wrapping_add_signed(self.unpublished)
    }
}

/// The memory of one endpoint, and its share in the account.
#[derive(Debug)]
pub(crate) struct Memory {
    account: Arc<MemoryAccount>,
    received: Held,
    sent: Held,
    associations: u32,
}

impl Memory {
    /// Creates the counters of an endpoint with the limits in bytes. `account` is shared with other endpoints, if
    /// there are any.
    pub(crate) fn new(
        account: Option<Arc<MemoryAccount>>,
        receive_bytes_max: u64,
        send_bytes_max: u64,
    ) -> Self {
        Self {
            account: account.unwrap_or_default(),
            received: Held::new(receive_bytes_max),
            sent: Held::new(send_bytes_max),
            associations: 0,
        }
    }

    /// Records that the unread bytes of one association changed from `before` to `after`.
    #[inline]
    pub(crate) fn on_received(&mut self, before: u32, after: u32) {
        self.received.change(i64::from(after) - i64::from(before), &self.account.received);
    }

    /// Records that `bytes` were read or dropped.
    #[inline]
    pub(crate) fn on_read(&mut self, bytes: u32) {
        self.on_received(bytes, 0);
    }

    /// Records that `bytes` were given to send.
    #[inline]
    pub(crate) fn on_given(&mut self, bytes: usize) {
        self.sent.change(signed(bytes), &self.account.sent);
    }

    /// Records that `bytes` were acknowledged, or failed.
    #[inline]
    pub(crate) fn on_gone(&mut self, bytes: usize) {
        self.sent.change(-signed(bytes), &self.account.sent);
    }

    /// Returns the bytes received and not read, of this endpoint.
    pub(crate) fn received(&self) -> u64 {
        self.received.bytes()
    }

    /// Returns the bytes given to send and not acknowledged, of this endpoint.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.bytes()
    }

    /// Returns the bytes received and not read, of all endpoints that share the account.
    #[inline]
    pub(crate) fn received_in_all(&self) -> u64 {
        // What was added and removed at the same time may be counted in another order: less than nothing is nothing.
        self.received.in_all(&self.account.received).cast_signed().max(0).cast_unsigned()
    }

    /// Returns the bytes given to send and not acknowledged, of all endpoints that share the account.
    #[inline]
    pub(crate) fn sent_in_all(&self) -> u64 {
        self.sent.in_all(&self.account.sent)
    }

    pub(crate) fn on_association(&mut self) {
        self.associations += 1;
        self.account.associations.fetch_add(1, Relaxed);
    }

    pub(crate) fn on_association_gone(&mut self) {
        self.associations = self.associations.saturating_sub(1);
        self.account.associations.fetch_sub(1, Relaxed);
    }

    /// Returns the number of associations of this endpoint.
    #[inline]
    pub(crate) fn associations(&self) -> u32 {
        self.associations
    }

    /// Returns the number of associations of all endpoints that share the account.
    pub(crate) fn associations_in_all(&self) -> u32 {
        self.account.associations.load(Relaxed)
    }
}

/// Converts a size. No buffer is large enough for the cast to overflow.
#[inline]
const fn signed(bytes: usize) -> i64 {
    (bytes as u64).cast_signed()
}

/// Removes this endpoint's share, because other endpoints may keep using the account.
impl Drop for Memory {
    fn drop(&mut self) {
        self.account.received.fetch_sub(self.received.published, Relaxed);
        self.account.sent.fetch_sub(self.sent.published, Relaxed);
        self.account.associations.fetch_sub(self.associations, Relaxed);
    }
}
