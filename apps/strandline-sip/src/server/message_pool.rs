//! Copies of messages that wait to be handled.

use bytes::{Bytes, BytesMut};

/// Size of the blocks shared by messages, in bytes.
const BLOCK: usize = 64 << 10;

/// A pool with many copies per block. A block is freed once all of its messages are dropped, or reused if
/// that is the case when [`begin`](Self::begin) is called. Allocating and freeing memory for each message
/// would cost more than copying it.
#[derive(Debug, Default)]
pub(super) struct MessagePool(BytesMut);

impl MessagePool {
    /// Prepares for a new batch of messages. If none of the earlier ones is left, their block is reused from
    /// its start.
    pub(super) fn begin(&mut self) {
        if self.0.capacity() < BLOCK {
            // Otherwise a new block is allocated once this one is full.
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
