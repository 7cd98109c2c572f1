//! Copies of messages, from `push` until they are acknowledged.
//!
//! They are stored one after another in blocks, and a block counts the messages in it that are still needed. Adding a
//! message is one copy, and releasing a run of them one subtraction, without an allocation or an atomic counter.
//! Messages may leave in any order; a block becomes free with its last one, whatever waits in others. A message that is
//! longer than the blocks has one of its own. These are reused as well: the system takes longer to hand out fresh pages
//! than the copy into them takes.

/// Size of the first block in bytes. Each further one is twice as large, so that an association that sends little
/// needs little.
const BLOCK_MIN: usize = 512;
/// Size of the largest blocks in bytes.
const BLOCK_MAX: usize = 64 << 10;

/// Maximum number of bytes of free blocks of long messages that are kept; a single one may have more.
const LARGE_KEPT_MAX: usize = 4 << 20;
/// Maximum size in bytes of a single block of a long message that is kept.
const LARGE_SINGLE_MAX: usize = 16 << 20;
/// Unit in bytes to which the sizes of such blocks are rounded up.
const LARGE_UNIT: usize = 4 << 10;

/// The location of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Index of the block.
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
    /// Adds a message for which there is room; this is the block with that index.
    #[inline]
    fn push(&mut self, index: u32, message: &[u8]) -> Place {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(message);
        self.live += 1;
        Place { block: index, start, len: message.len() as u32 }
    }
}

/// The copies of one association.
#[derive(Debug, Default)]
pub(super) struct Copies {
    blocks: Vec<Block>,
    /// Index of the block that is written.
    current: u32,
    /// Indexes of the other blocks that nobody needs. The largest ones keep their memory, for reuse; it is freed with
    /// everything else once idle.
    free: Vec<u32>,
    /// Indexes of the free blocks of long messages, the latest last: its pages are the likeliest to be in the
    /// processor's cache.
    free_large: Vec<u32>,
    /// Sum of their sizes in bytes.
    free_large_bytes: usize,
}

impl Copies {
    /// Adds a message.
    #[inline]
    pub(super) fn push(&mut self, message: &[u8]) -> Place {
        if let Some(current) = self.blocks.get_mut(self.current as usize)
            && current.bytes.capacity() - current.bytes.len() >= message.len()
        {
            return current.push(self.current, message);
        }
        if message.len() > BLOCK_MAX {
            return self.push_large(message);
        }
        self.begin_block(message.len());
        match self.blocks.get_mut(self.current as usize) {
            Some(current) => current.push(self.current, message),
            None => Place { block: self.current, start: 0, len: 0 },
        }
    }

    /// Returns the bytes of a message.
    #[inline]
    pub(super) fn bytes(&self, place: Place) -> &[u8] {
        let block = self.blocks.get(place.block as usize).map_or(&[][..], |block| &block.bytes);
        block.get(place.start as usize..place.start as usize + place.len()).unwrap_or_default()
    }

    /// Releases `messages` messages of a block.
    pub(super) fn release(&mut self, block: u32, messages: u32) {
        let Some(found) = self.blocks.get_mut(block as usize) else { return };
        debug_assert!(found.live >= messages, "released twice");
        found.live = found.live.saturating_sub(messages);
        if found.live == 0 {
            found.bytes.clear(); // Written again from its beginning if it is the current one.
            if block != self.current {
                self.retire(block);
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(|block| block.bytes.capacity()).sum();
        let free = self.free.capacity() + self.free_large.capacity();
        blocks + self.blocks.capacity() * size_of::<Block>() + free * size_of::<u32>()
    }

    /// Adds a message to a block of its own, at most twice as large.
    #[cold]
    fn push_large(&mut self, message: &[u8]) -> Place {
        let Self { blocks, free_large, .. } = self;
        let fits = |index: &u32| {
            let size = blocks.get(*index as usize).map_or(0, |block| block.bytes.capacity());
            (message.len()..=message.len().saturating_mul(2)).contains(&size)
        };
        let index = match free_large.iter().rposition(fits) {
            Some(place) => free_large.remove(place),
            None => return self.push_to_new(message),
        };
        let Some(block) = blocks.get_mut(index as usize) else { return Place::EMPTY };
        self.free_large_bytes = self.free_large_bytes.saturating_sub(block.bytes.capacity());
        block.push(index, message)
    }

    /// Adds a message to a new block of its own.
    fn push_to_new(&mut self, message: &[u8]) -> Place {
        let Self { blocks, free, .. } = self;
        if blocks.is_empty() {
            // The current block is never that of a long message.
            blocks.push(Block { bytes: Vec::new(), live: 0 });
        }
        // The place of a block that was freed, if the latest one was.
        let freed =
            |index: &mut u32| blocks.get(*index as usize).is_some_and(|block| block.bytes.capacity() == 0);
        let index = free.pop_if(freed).unwrap_or(blocks.len() as u32);
        if index as usize == blocks.len() {
            blocks.push(Block { bytes: Vec::new(), live: 0 });
        }
        let Some(block) = blocks.get_mut(index as usize) else { return Place::EMPTY };
        block.bytes = Vec::with_capacity(message.len().next_multiple_of(LARGE_UNIT));
        block.push(index, message)
    }

    /// Keeps the free block of a long message for another one. The oldest ones make room.
    fn keep_large(&mut self, index: u32, size: usize) {
        self.free_large.push(index);
        self.free_large_bytes += size;
        while self.free_large_bytes
            > if self.free_large.len() > 1 { LARGE_KEPT_MAX } else { LARGE_SINGLE_MAX }
        {
            let oldest = self.free_large.remove(0);
            if let Some(block) = self.blocks.get_mut(oldest as usize) {
                let bytes = core::mem::take(&mut block.bytes);
                self.free_large_bytes = self.free_large_bytes.saturating_sub(bytes.capacity());
            }
            self.free.push(oldest);
        }
    }

    /// Makes a block with room for `len` bytes the current one, larger than the one before.
    #[cold]
    fn begin_block(&mut self, len: usize) {
        let before = self.blocks.get(self.current as usize);
        let (last, is_free) = before.map_or((0, false), |block| (block.bytes.capacity(), block.live == 0));
        let size = (2 * last).max(len.next_power_of_two()).clamp(BLOCK_MIN, BLOCK_MAX);
        if !is_free {
            self.current = self.free.pop().unwrap_or(self.blocks.len() as u32);
        }
        match self.blocks.get_mut(self.current as usize) {
            Some(block) if block.bytes.capacity() >= size => {}
            Some(block) => block.bytes = Vec::with_capacity(size),
            None => self.blocks.push(Block { bytes: Vec::with_capacity(size), live: 0 }),
        }
    }

    /// Keeps a block that nobody needs for later, without its memory unless it is one of the largest.
    #[cold]
    fn retire(&mut self, block: u32) {
        let Some(found) = self.blocks.get_mut(block as usize) else { return };
        let size = found.bytes.capacity();
        if size > BLOCK_MAX {
            return self.keep_large(block, size);
        }
        if size < BLOCK_MAX {
            found.bytes = Vec::new();
        }
        self.free.push(block);
    }
}

#[cfg(test)]
mod tests;
