//! A hash table that grows a little at a time (linear hashing): parts of bounded size, of which one is split in two for
//! every so many entries. A table in one piece would move all its entries at once when it is full: with a million
//! associations everybody would wait some tenths of a second for whoever happens to be the one too many.

use hashbrown::HashTable;

/// Entries of a part on average when the next one is split. A part that is yet to be split has up to twice as many,
/// which still fit into 2,048 buckets (at most 7/8 of them full) with a margin for chance.
const MEAN: usize = 800;

/// The bits of a hash that choose the part begin here: below are those that choose the bucket, in the top seven are
/// those that a bucket is compared by.
const PART_SHIFT: u32 = 16;

/// Entries by their hash.
#[derive(Debug)]
pub(super) struct SplitTable<T> {
    /// Never empty. With one part this is a table as any other.
    parts: Vec<HashTable<T>>,
    len: usize,
}

impl<T> SplitTable<T> {
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

    /// Adds an entry that is not there yet. `hasher` gives the hash of entries that move.
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

    /// Makes one part two, by one more bit of the hash.
    fn split(&mut self, hasher: &impl Fn(&T) -> u64) {
        let count = self.parts.len();
        // The first of those that have one bit less than those which were split already.
        let Some(source) = self.parts.get_mut(count - (1 << count.ilog2())) else { return };
        let mut new = HashTable::with_capacity(source.len() / 2);
        for entry in source.extract_if(|entry| part_of(hasher(entry), count + 1) == count) {
            new.insert_unique(hasher(&entry), entry, hasher);
        }
        source.shrink_to_fit(hasher);
        self.parts.push(new);
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(HashTable::allocation_size).sum();
        parts + self.parts.capacity() * size_of::<HashTable<T>>()
    }
}

/// Which of `count` parts an entry is in: as many bits of its hash as tell them apart, or one less if that part is not
/// there yet.
fn part_of(hash: u64, count: usize) -> usize {
    let mask = count.next_power_of_two() - 1;
    let part = (hash >> PART_SHIFT) as usize & mask;
    if part < count { part } else { part & (mask >> 1) }
}

#[cfg(test)]
mod tests;
