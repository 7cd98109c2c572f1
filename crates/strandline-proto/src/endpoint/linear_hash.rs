//! A hash table that grows in small steps (linear hashing). It consists of parts of bounded size; every so many new
//! entries one part is split in two. A table in one piece would move all its entries at once when it is full: with a
//! million associations everybody would wait some tenths of a second for a single insertion.

use hashbrown::HashTable;

/// Average number of entries per part at which the next part is split. A part that is not split yet has up to twice
/// as many. These still fit into 2,048 buckets (at most 7/8 of them full) with a margin for chance.
const MEAN: usize = 800;

/// Position of the hash bits that select the part. The bits below select the bucket, and the top seven are the tag
/// that a bucket stores.
const PART_SHIFT: u32 = 16;

/// 2^64 divided by the golden ratio: multiplication by it spreads similar numbers over all bits (Fibonacci hashing).
pub(super) const SPREAD_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes a tag. Tags are random, so mixing is enough. The low bits of all tags may be equal, since they can contain
/// the shard number. The hash therefore has the high half of the product in its low bits.
pub(super) fn hash_tag(tag: u32) -> u64 {
    u64::from(tag).wrapping_mul(SPREAD_FACTOR).rotate_left(u64::BITS / 2)
}

/// A table of entries by hash.
#[derive(Debug)]
pub(super) struct LinearHashTable<T> {
    /// The parts; never empty. With one part this is an ordinary table.
    parts: Vec<HashTable<T>>,
    len: usize,
}

impl<T> LinearHashTable<T> {
    pub(super) fn new() -> Self {
        Self { parts: vec![HashTable::new()], len: 0 }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn find(&self, hash: u64, eq: impl FnMut(&T) -> bool) -> Option<&T> {
        self.parts.get(part_of(hash, self.parts.len()))?.find(hash, eq)
    }

    /// Adds an entry that is not in the table yet. `hasher` returns the hash of entries that move.
    pub(super) fn insert_unique(&mut self, hash: u64, entry: T, hasher: impl Fn(&T) -> u64) {
        if self.len >= self.parts.len() * MEAN {
            self.split(&hasher);
        }
        let part = part_of(hash, self.parts.len());
        if let Some(part) = self.parts.get_mut(part) {
            part.insert_unique(hash, entry, hasher);
            self.len += 1;
        }
    }

    pub(super) fn remove(&mut self, hash: u64, eq: impl FnMut(&T) -> bool) {
        let part = part_of(hash, self.parts.len());
        if let Some(part) = self.parts.get_mut(part)
            && let Ok(entry) = part.find_entry(hash, eq)
        {
            entry.remove();
            self.len -= 1;
        }
    }

    /// Splits one part in two by one more bit of the hash.
    fn split(&mut self, hasher: &impl Fn(&T) -> u64) {
        let count = self.parts.len();
        // The first part that uses one bit less than the parts already split.
        let Some(source) = self.parts.get_mut(count - (1 << count.ilog2())) else { return };
        let mut new = HashTable::with_capacity(source.len() / 2);
        for entry in source.extract_if(|entry| part_of(hasher(entry), count + 1) == count) {
            new.insert_unique(hasher(&entry), entry, hasher);
        }
        source.shrink_to_fit(hasher);
        self.parts.push(new);
    }

    /// Returns the number of bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(HashTable::allocation_size).sum();
        parts + self.parts.capacity() * size_of::<HashTable<T>>()
    }
}

/// Returns the part of an entry among `count`: enough bits of its hash to distinguish all parts, or one less if that
/// part does not exist yet.
fn part_of(hash: u64, count: usize) -> usize {
    let mask = count.next_power_of_two() - 1;
    let part = (hash >> PART_SHIFT) as usize & mask;
    if part < count { part } else { part & (mask >> 1) }
}

#[cfg(test)]
mod tests;
