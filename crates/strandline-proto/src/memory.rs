//! What associations hold together: of one endpoint, or of several that share an account, such as the shards of a stack.
//! Each endpoint counts for itself, exactly, and tells the account of it by steps, so that the cores of a host write to
//! the same place seldom.

#[cfg(test)]
mod tests;

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// An endpoint tells of a change once it is so large, or a part of the limit: with 64 of them and limits of 1 GiB the
/// sum is right to 16 MiB.
const STEP_MAX: u64 = 256 << 10;
const STEPS_OF_LIMIT: u64 = 4096;

/// The bytes that several endpoints hold together, to which `receive_bytes_max` and `send_bytes_max` of
/// `EndpointConfig` apply then: see its field `account`.
#[derive(Debug, Default)]
pub struct MemoryAccount {
    received: AtomicU64,
    sent: AtomicU64,
    associations: AtomicU32,
}

/// Bytes of one kind that one endpoint holds.
#[derive(Debug)]
struct Held {
    /// What the account has of them.
    told: u64,
    /// What there is beyond that; below 0: what is gone of it.
    untold: i64,
    step: i64,
}

impl Held {
    fn new(limit: u64) -> Self {
        Self { told: 0, untold: 0, step: (limit / STEPS_OF_LIMIT).clamp(1, STEP_MAX).cast_signed() }
    }

    /// Bytes are counted in before they go out: there is never less than nothing.
    #[inline]
    fn bytes(&self) -> u64 {
        self.told.saturating_add_signed(self.untold)
    }

    #[inline]
    fn change(&mut self, by: i64, account: &AtomicU64) {
        self.untold += by;
        debug_assert!(self.told.checked_add_signed(self.untold).is_some(), "more went than came");
        if self.untold >= self.step || self.untold <= -self.step {
            self.tell(account);
        }
    }

    /// The difference may be below 0, which wraps: the sum of all is not.
    #[cold]
    #[inline(never)]
    fn tell(&mut self, account: &AtomicU64) {
        let bytes = self.bytes();
        account.fetch_add(bytes.wrapping_sub(self.told), Relaxed);
        (self.told, self.untold) = (bytes, 0);
    }

    #[inline]
    fn in_all(&self, account: &AtomicU64) -> u64 {
        account.load(Relaxed).wrapping_add_signed(self.untold)
    }
}

/// What one endpoint holds, and its part in the account.
#[derive(Debug)]
pub(crate) struct Memory {
    account: Arc<MemoryAccount>,
    received: Held,
    sent: Held,
    associations: u32,
}

impl Memory {
    /// `account`: whose others there are, if any; and the limits, in bytes.
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

    /// Bytes received and not read yet of one association were so many, and are so many now.
    #[inline]
    pub(crate) fn on_received(&mut self, before: u32, after: u32) {
        self.received.change(i64::from(after) - i64::from(before), &self.account.received);
    }

    /// So many of them were read, or dropped.
    #[inline]
    pub(crate) fn on_read(&mut self, bytes: u32) {
        self.on_received(bytes, 0);
    }

    /// So many bytes were given to send.
    #[inline]
    pub(crate) fn on_given(&mut self, bytes: usize) {
        self.sent.change(signed(bytes), &self.account.sent);
    }

    /// So many of them were acknowledged, or failed.
    #[inline]
    pub(crate) fn on_gone(&mut self, bytes: usize) {
        self.sent.change(-signed(bytes), &self.account.sent);
    }

    /// Bytes received and not read, of this endpoint.
    pub(crate) fn received(&self) -> u64 {
        self.received.bytes()
    }

    /// Bytes given to send and not acknowledged, of this endpoint.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.bytes()
    }

    /// Bytes received and not read, of all that share the account.
    #[inline]
    pub(crate) fn received_in_all(&self) -> u64 {
        self.received.in_all(&self.account.received)
    }

    /// Bytes given to send and not acknowledged, of all that share the account.
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

    /// Associations of this endpoint.
    #[inline]
    pub(crate) fn associations(&self) -> u32 {
        self.associations
    }

    /// Associations of all that share the account.
    pub(crate) fn associations_in_all(&self) -> u32 {
        self.account.associations.load(Relaxed)
    }
}

/// No buffer has as much as that.
#[inline]
const fn signed(bytes: usize) -> i64 {
    (bytes as u64).cast_signed()
}

/// Others may go on with the account.
impl Drop for Memory {
    fn drop(&mut self) {
        self.account.received.fetch_sub(self.received.told, Relaxed);
        self.account.sent.fetch_sub(self.sent.told, Relaxed);
        self.account.associations.fetch_sub(self.associations, Relaxed);
    }
}
