//! Copies of small messages, from `push` until they are acknowledged.
//!
//! They are stored one after another in blocks, and a block counts the messages in it that are still needed. Adding a
//! message is one copy, and releasing a run of them one subtraction, without an allocation or an atomic counter.
//! Messages may leave in any order; a block becomes free with its last one.

use std::collections::VecDeque;

/// Size of the first block in bytes. Each further one is twice as large, so that an association that sends little
/// needs little.
const BLOCK_MIN: usize = 512;
/// Size of the largest blocks in bytes.
const BLOCK_MAX: usize = 64 << 10;

/// Maximum length in bytes of messages that are stored in a block if they must be copied anyway.
pub(super) const COPY_MAX: usize = BLOCK_MAX / 4;

/// The location of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Number of the block, counted from the association's first one, modulo 2^32.
    block: u32,
    start: u32,
    len: u32,
}

impl Place {
    /// No bytes, in no block that needs to know.
    pub(super) const EMPTY: Self = Self { block: 0, start: 0, len: 0 };

    #[inline]
    pub(super) const fn len(self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(super) const fn block(self) -> u32 {
        self.block
    }
}

#[derive(Debug)]
struct Block {
    /// Never grows beyond its first capacity.
    bytes: Vec<u8>,
    /// Number of messages in it that are needed.
    live: u32,
}

impl Block {
    /// Adds a message for which there is room; this is the block of that `number`.
    #[inline]
    fn push(&mut self, number: u32, message: &[u8]) -> Place {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(message);
        self.live += 1;
        Place { block: number, start, len: message.len() as u32 }
    }
}

/// The copies of one association.
#[derive(Debug, Default)]
pub(super) struct Copies {
    blocks: VecDeque<Block>,
    /// Number of the first block.
    first: u32,
    /// Free blocks of the largest size, kept for reuse; freed with everything else once idle.
    spare: Vec<Vec<u8>>,
}

impl Copies {
    /// Adds a message of at most [`COPY_MAX`] bytes.
    #[inline]
    pub(super) fn push(&mut self, message: &[u8]) -> Place {
        let number = self.first.wrapping_add(self.blocks.len() as u32);
        if let Some(last) = self.blocks.back_mut()
            && last.bytes.capacity() - last.bytes.len() >= message.len()
        {
            return last.push(number.wrapping_sub(1), message);
        }
        self.begin_block(message.len());
        match self.blocks.back_mut() {
            Some(last) => last.push(number, message),
            None => Place { block: number, start: 0, len: 0 },
        }
    }

    /// Returns the bytes of a message.
    #[inline]
    pub(super) fn bytes(&self, place: Place) -> &[u8] {
        let index = place.block.wrapping_sub(self.first) as usize;
        let block = self.blocks.get(index).map_or(&[][..], |block| &block.bytes);
        block.get(place.start as usize..place.start as usize + place.len()).unwrap_or_default()
    }

    /// Releases `messages` messages of a block.
    pub(super) fn release(&mut self, block: u32, messages: u32) {
        let index = block.wrapping_sub(self.first) as usize;
        let Some(block) = self.blocks.get_mut(index) else { return };
        debug_assert!(block.live >= messages, "released twice");
        block.live = block.live.saturating_sub(messages);
        if block.live == 0 {
            block.bytes.clear(); // Written again from its beginning if it is the last one.
            self.retire();
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(|block| block.bytes.capacity()).sum();
        let spare: usize = self.spare.iter().map(Vec::capacity).sum();
        let lists =
            self.blocks.capacity() * size_of::<Block>() + self.spare.capacity() * size_of::<Vec<u8>>();
        blocks + spare + lists
    }

    #[cold]
    fn begin_block(&mut self, len: usize) {
        let last = self.blocks.back().map_or(0, |block| block.bytes.capacity());
        let size = (2 * last).max(len.next_power_of_two()).clamp(BLOCK_MIN, BLOCK_MAX);
        let bytes = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(size));
        self.blocks.push_back(Block { bytes, live: 0 });
    }

    /// Removes the blocks at the front that nobody needs.
    #[cold]
    fn retire(&mut self) {
        while self.blocks.len() > 1
            && let Some(Block { live: 0, .. }) = self.blocks.front()
            && let Some(block) = self.blocks.pop_front()
        {
            self.first = self.first.wrapping_add(1);
            if block.bytes.capacity() >= BLOCK_MAX {
                self.spare.push(block.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests;
