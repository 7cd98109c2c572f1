//! Memory for the bytes of arriving messages.

mod large;

use std::collections::VecDeque;

use bytes::BytesMut;

use self::large::LargeBuffers;

/// Size of a block in bytes.
const BLOCK_SIZE: usize = 64 << 10;

/// Longer payloads get a buffer of their own, because they would often waste the rest of a block.
const COPY_MAX: usize = BLOCK_SIZE / 4;

/// Longer messages under assembly move to a buffer of their own, which doubles as they grow.
const ASSEMBLY_MAX: usize = BLOCK_SIZE / 2;

/// Maximum number of used-up blocks kept for reuse: what several full receive buffers need at a time. An idle
/// endpoint frees them.
const RETIRED_MAX: usize = 256;

/// Cuts the buffers of messages out of large blocks, so that a message needs no allocation. One for each endpoint.
///
/// A block is shared by its messages and becomes free when the last of them is dropped. Up to 256 used-up blocks (16
/// MiB) are kept and reused once they are free, the latest one first, which is the likeliest to be in the processor's
/// cache: an application that keeps up with reading needs no allocation at all.
/// Unread messages pin their block, so data held out of order is never stored here. Longer messages have buffers of
/// their own, which are reused as well ([`LargeBuffers`]).
#[derive(Debug, Default)]
pub(crate) struct Arena {
    /// Empty; its capacity is the rest of the block.
    block: BytesMut,
    /// Handles of used-up blocks, oldest first.
    retired: VecDeque<BytesMut>,
    /// True if `block` is a block, and not the initial empty buffer.
    begun: bool,
    large: LargeBuffers,
}

impl Arena {
    /// Returns a buffer with these bytes.
    #[inline]
    pub(super) fn copy(&mut self, bytes: &[u8]) -> BytesMut {
        if bytes.len() > COPY_MAX {
            return self.large.copy(bytes);
        }
        if self.block.capacity() < bytes.len() {
            self.next_block();
        }
        self.block.extend_from_slice(bytes);
        self.block.split()
    }

    /// Returns an empty buffer with room for `capacity` bytes.
    pub(super) fn buffer(&mut self, capacity: usize) -> BytesMut {
        if capacity > ASSEMBLY_MAX {
            return self.large.take(capacity);
        }
        if self.block.capacity() < capacity {
            self.next_block();
        }
        let rest = self.block.split_off(capacity);
        core::mem::replace(&mut self.block, rest)
    }

    /// Appends the next fragment to a message. While nothing else is cut out in between, the fragments are adjacent
    /// in the block and are joined in place. Otherwise the message moves to twice the room it needs, so that it moves
    /// a logarithmic number of times. A message that gets its `expected` length does not move at all.
    pub(super) fn append(&mut self, message: &mut BytesMut, fragment: &[u8], expected: usize) {
        if message.is_empty() {
            if expected > fragment.len() {
                // Its block is divided once, and not for each fragment, which would wait for the copy of the last one.
                *message = self.buffer(expected);
                message.extend_from_slice(fragment);
            } else {
                *message = self.copy(fragment);
            }
            return;
        }
        let len = message.len() + fragment.len();
        if len > message.capacity() {
            let beside = message.as_ptr().wrapping_add(message.capacity()) == self.block.as_ptr();
            let (fits, rest) = fragment.split_at(message.capacity() - message.len());
            if beside && self.block.capacity() >= rest.len() {
                message.extend_from_slice(fits);
                self.block.extend_from_slice(rest);
                message.unsplit(self.block.split());
                return;
            }
            // At the end of a block no spare room is needed: the following fragments will be adjacent again.
            let capacity = match len {
                _ if len > ASSEMBLY_MAX => 2 * len,
                _ if beside => len,
                _ => (2 * len).min(ASSEMBLY_MAX),
            };
            let mut moved = self.buffer(capacity);
            moved.extend_from_slice(message);
            *message = moved;
        }
        message.extend_from_slice(fragment);
    }

    /// Frees the unused blocks and buffers.
    pub(crate) fn release_idle(&mut self) {
        self.large.release_idle();
        self.retired.retain_mut(|block| !block.try_reclaim(BLOCK_SIZE));
        if self.retired.is_empty() {
            self.retired = VecDeque::new();
        }
        if self.block.try_reclaim(BLOCK_SIZE) {
            self.block = BytesMut::new();
            self.begun = false;
        }
    }

    /// Returns the bytes of the blocks and buffers that this arena keeps.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn heap_bytes(&self) -> usize {
        let blocks = self.retired.len() + usize::from(self.begun);
        blocks * BLOCK_SIZE + self.retired.capacity() * size_of::<BytesMut>() + self.large.heap_bytes()
    }

    /// Retires the block and takes the latest retired one that is free, or a new one.
    fn next_block(&mut self) {
        let free = self.retired.iter_mut().rposition(|block| block.try_reclaim(BLOCK_SIZE));
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
