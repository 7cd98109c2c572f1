//! Where the bytes of arriving messages are kept.

use std::collections::VecDeque;

use bytes::BytesMut;

/// Bytes of a block.
const BLOCK_SIZE: usize = 64 << 10;

/// Payloads longer than this get an allocation of their own: a block's remainder would often be wasted on them.
const COPY_MAX: usize = BLOCK_SIZE / 4;

/// Messages under assembly longer than this move to an allocation of their own, which doubles as they grow.
const ASSEMBLY_MAX: usize = BLOCK_SIZE / 2;

/// Used-up blocks kept for another turn: what several full receive buffers need at a time. An idle endpoint gives them
/// back.
const RETIRED_MAX: usize = 256;

/// Carves the buffers of messages out of large blocks, so that a message costs no allocation; one for each endpoint.
///
/// A block is shared by the messages in it and comes free when the last of them is dropped. Used-up blocks are kept,
/// up to 256 (16 MiB), and used again once they are free: an application that keeps up with its reading costs no
/// allocation at all. What an application never reads pins its block; data held out of order therefore never lives
/// here.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    /// Empty; its capacity is what is left of the block.
    block: BytesMut,
    /// Handles of used-up blocks, oldest first.
    retired: VecDeque<BytesMut>,
    /// `block` is one, not the empty buffer of the beginning.
    begun: bool,
}

impl Arena {
    /// A buffer with these bytes.
    #[inline]
    pub(super) fn copy(&mut self, bytes: &[u8]) -> BytesMut {
        if bytes.len() > COPY_MAX {
            return BytesMut::from(bytes);
        }
        if self.block.capacity() < bytes.len() {
            self.next_block();
        }
        self.block.extend_from_slice(bytes);
        self.block.split()
    }

    /// An empty buffer with room for `capacity` bytes.
    pub(super) fn buffer(&mut self, capacity: usize) -> BytesMut {
        if capacity > ASSEMBLY_MAX {
            return BytesMut::with_capacity(capacity);
        }
        if self.block.capacity() < capacity {
            self.next_block();
        }
        let rest = self.block.split_off(capacity);
        core::mem::replace(&mut self.block, rest)
    }

    /// Appends the next fragment to a message. While nothing else is carved in between, the fragments lie side by
    /// side in the block and are joined where they are; else the message moves, to twice the room it needs, so that
    /// it is moved a logarithmic number of times.
    pub(super) fn append(&mut self, message: &mut BytesMut, fragment: &[u8]) {
        if message.is_empty() {
            *message = self.copy(fragment);
            return;
        }
        let beside = message.as_ptr_range().end == self.block.as_ptr();
        if beside && self.block.capacity() >= fragment.len() {
            self.block.extend_from_slice(fragment);
            message.unsplit(self.block.split());
            return;
        }
        let len = message.len() + fragment.len();
        if len > message.capacity() {
            if len > ASSEMBLY_MAX {
                message.reserve(len);
            } else {
                // At the end of a block no spare room: what follows will lie side by side again.
                let capacity = if beside { len } else { (2 * len).min(ASSEMBLY_MAX) };
                let mut moved = self.buffer(capacity);
                moved.extend_from_slice(message);
                *message = moved;
            }
        }
        message.extend_from_slice(fragment);
    }

    /// Gives back the blocks that nothing uses.
    pub(crate) fn release_idle(&mut self) {
        self.retired.retain_mut(|block| !block.try_reclaim(BLOCK_SIZE));
        if self.retired.is_empty() {
            self.retired = VecDeque::new();
        }
        if self.block.try_reclaim(BLOCK_SIZE) {
            self.block = BytesMut::new();
            self.begun = false;
        }
    }

    /// Bytes of the blocks that this arena keeps; those of messages that outlive it are not among them.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn heap_bytes(&self) -> usize {
        let blocks = self.retired.len() + usize::from(self.begun);
        blocks * BLOCK_SIZE + self.retired.capacity() * size_of::<BytesMut>()
    }

    /// Retires the block and takes the oldest retired one that is free, or a new one.
    fn next_block(&mut self) {
        let free = self.retired.iter_mut().position(|block| block.try_reclaim(BLOCK_SIZE));
        let next = free.and_then(|place| self.retired.remove(place));
        let full =
            core::mem::replace(&mut self.block, next.unwrap_or_else(|| BytesMut::with_capacity(BLOCK_SIZE)));
        if !core::mem::replace(&mut self.begun, true) {
            return;
        }
        if self.retired.len() >= RETIRED_MAX {
            self.retired.pop_front();
        }
        self.retired.push_back(full);
    }
}

#[cfg(test)]
mod tests;
