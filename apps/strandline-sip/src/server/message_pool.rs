//! Copies of messages that wait to be handled.

use bytes::{Bytes, BytesMut};

/// Messages share blocks of this size.
const BLOCK: usize = 64 << 10;

/// Many copies to a block: a block goes when all of its messages are gone, or is used again if that is so when
/// [`begin`](Self::begin) is called. To take memory from the heap for each message, and give it back, would cost more than to
/// copy it.
#[derive(Debug, Default)]
pub(super) struct Kept(BytesMut);

impl Kept {
    /// Other messages have come: if none is left of those before, their block is used again from its start.
    pub(super) fn begin(&mut self) {
        if self.0.capacity() < BLOCK {
            // If some of them are left, another block comes once this one is full.
            let _ = self.0.try_reclaim(BLOCK);
        }
    }

    pub(super) fn keep(&mut self, bytes: &[u8]) -> Bytes {
        if self.0.capacity() < bytes.len() {
            self.0 = BytesMut::with_capacity(BLOCK.max(bytes.len()));
        }
        self.0.extend_from_slice(bytes);
        self.0.split().freeze()
    }
}

#[cfg(test)]
mod tests;
