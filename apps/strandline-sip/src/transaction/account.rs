//! Accounts for the memory of the messages that a shard keeps.

use core::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Messages larger than this, in bytes, are reduced to the parts that are still needed before they are
/// stored. For smaller messages the parsing would cost more than the memory is worth.
pub(super) const WHOLE_MAX: usize = 2 << 10;

/// New requests larger than this, in bytes, may use only half of the account, so that usual ones still find
/// room.
const LARGE: usize = 8 << 10;

/// Counts the bytes kept by transactions, and by components that hold requests until their destination is
/// known.
#[derive(Debug)]
pub(crate) struct Account {
    max: usize,
    /// Bytes kept by transactions, which report each change.
    own: usize,
    held: Holder,
}

/// Counts the bytes kept outside transactions; each is released when its holder is dropped. It is atomic only
/// so that it can move between threads: no two threads use it at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holder(Arc<AtomicUsize>);

impl Account {
    pub(super) fn new(max: usize) -> Self {
        Self { max, own: 0, held: Holder::default() }
    }

    /// The number of bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        self.own.saturating_add(self.held.0.load(Ordering::Relaxed))
    }

    /// Returns true if there is room for `bytes` more for work that has already begun.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.is_below(self.max, bytes)
    }

    /// Returns true if there is room for `copies` copies of a new request. The last eighth of the account is
    /// reserved for work that has begun, so that calls can be answered, continued and ended.
    pub(crate) fn has_room_for_new(&self, request: usize, copies: usize) -> bool {
        let most = if request > LARGE { self.max / 2 } else { self.max - self.max / 8 };
        self.is_below(most, request.saturating_mul(copies))
    }

    /// Whether there is room for so many copies of a request. One within a dialog that began here may take
    /// more than a new one.
    #[cfg(feature = "server")]
    pub(crate) fn has_room_for(&self, request: usize, copies: usize, in_dialog: bool) -> bool {
        if in_dialog { self.has_room(request) } else { self.has_room_for_new(request, copies) }
    }

    fn is_below(&self, most: usize, bytes: usize) -> bool {
        self.bytes().saturating_add(bytes) <= most
    }

    /// Stores `bytes` in `place`, instead of what a transaction kept there.
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

    /// Frees what a transaction kept in `place`.
    pub(super) fn free(&mut self, place: &mut Vec<u8>) {
        self.changed(core::mem::take(place).capacity(), 0);
    }

    /// Records that a transaction's allocation has grown or shrunk.
    pub(super) const fn changed(&mut self, before: usize, after: usize) {
        self.own = self.own.saturating_add(after).saturating_sub(before);
    }

    /// The counter for bytes kept outside transactions.
    pub(crate) const fn holder(&self) -> &Holder {
        &self.held
    }
}

impl Holder {
    /// Counts `bytes` until the returned value is dropped.
    pub(crate) fn charge(&self, bytes: usize) -> Charge {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Charge { bytes, held: self.clone() }
    }

    /// Copies `bytes` and counts the copy.
    pub(crate) fn hold(&self, bytes: &[u8]) -> Held {
        Held { bytes: bytes.into(), charge: self.charge(bytes.len()) }
    }
}

/// Bytes on the account, released on drop.
#[derive(Debug)]
pub(crate) struct Charge {
    bytes: usize,
    held: Holder,
}

impl Charge {
    /// Counts `bytes` more.
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

/// A message whose bytes are on the account.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: Box<[u8]>,
    charge: Charge,
}

impl Held {
    /// Counts `bytes` more that belong to this message.
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
