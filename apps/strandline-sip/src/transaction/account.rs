//! What is kept of messages: one account of bytes for all of a shard.

use core::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is larger than this is looked at before it is kept: if a part of it will do, only that is. To look at what is smaller would
/// take more time than its memory is worth.
pub(super) const WHOLE_MAX: usize = 2 << 10;

/// New requests that are larger may take half of the account, so that they leave room for those that are as usual.
const LARGE: usize = 8 << 10;

/// Bytes that transactions keep, and those who keep requests until they know where these go.
#[derive(Debug)]
pub(crate) struct Account {
    max: usize,
    /// Of transactions, which tell each change.
    own: usize,
    held: Holder,
}

/// Bytes of all others, who give them back by forgetting what they hold. No two threads count at once: it may move to another one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holder(Arc<AtomicUsize>);

impl Account {
    pub(super) fn new(max: usize) -> Self {
        Self { max, own: 0, held: Holder::default() }
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.own.saturating_add(self.held.0.load(Ordering::Relaxed))
    }

    /// Is there room for so many bytes more, of what belongs to something that has begun?
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.is_below(self.max, bytes)
    }

    /// Is there room for so many copies of a new request? The last eighth is for what has begun: calls are answered, gone on with and
    /// ended.
    pub(crate) fn has_room_for_new(&self, request: usize, copies: usize) -> bool {
        let most = if request > LARGE { self.max / 2 } else { self.max - self.max / 8 };
        self.is_below(most, request.saturating_mul(copies))
    }

    fn is_below(&self, most: usize, bytes: usize) -> bool {
        self.bytes().saturating_add(bytes) <= most
    }

    /// A transaction keeps this in place of what it kept.
    pub(super) fn put(&mut self, place: &mut Vec<u8>, bytes: &[u8]) {
        let before = place.capacity();
        let too_small = before < bytes.len() && bytes.len() > WHOLE_MAX;
        if too_small || before / 2 > bytes.len() + WHOLE_MAX {
            *place = Vec::with_capacity(bytes.len());
        }
        place.clear();
        place.extend_from_slice(bytes);
        self.changed(before, place.capacity());
    }

    /// It keeps nothing any more.
    pub(super) fn free(&mut self, place: &mut Vec<u8>) {
        self.changed(core::mem::take(place).capacity(), 0);
    }

    /// The room that a transaction has taken is so large now.
    pub(super) const fn changed(&mut self, before: usize, after: usize) {
        self.own = self.own.saturating_add(after).saturating_sub(before);
    }

    /// What counts for others.
    pub(crate) const fn holder(&self) -> &Holder {
        &self.held
    }
}

impl Holder {
    /// So many bytes are kept as long as what is returned.
    pub(crate) fn charge(&self, bytes: usize) -> Charge {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Charge { bytes, held: self.clone() }
    }

    /// A copy.
    pub(crate) fn hold(&self, bytes: &[u8]) -> Held {
        Held { bytes: bytes.into(), charge: self.charge(bytes.len()) }
    }
}

/// Bytes on the account.
#[derive(Debug)]
pub(crate) struct Charge {
    bytes: usize,
    held: Holder,
}

impl Charge {
    /// So many more.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.held.0.fetch_add(bytes, Ordering::Relaxed);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A message that is on the account.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: Box<[u8]>,
    charge: Charge,
}

impl Held {
    /// With so many bytes that belong to it.
    pub(crate) fn and(mut self, bytes: usize) -> Self {
        self.charge.add(bytes);
        self
    }
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests;
