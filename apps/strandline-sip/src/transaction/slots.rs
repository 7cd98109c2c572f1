//! A table with reusable slots.

use super::chunked_table::ChunkedTable;

/// Values in numbered slots.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: ChunkedTable<Option<T>>,
    free: Vec<u32>,
    max: usize,
}

impl<T> Slots<T> {
    pub(crate) fn new(max: usize) -> Self {
        Self { places: ChunkedTable::default(), free: Vec::new(), max }
    }

    /// Stores a value in a free slot and returns its number, or `None` if there are too many.
    pub(crate) fn insert(&mut self, value: T) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            *self.places.get_mut(slot as usize)? = Some(value);
            return Some(slot);
        }
        if self.places.len() >= self.max {
            return None;
        }
        self.places.push(Some(value));
        Some((self.places.len() - 1) as u32)
    }

    /// Returns true if there is room for another value.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.places.len() < self.max
    }

    /// The slot that the next value will get.
    pub(crate) fn next_free(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.places.len() as u32)
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.places.get(slot as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.places.get_mut(slot as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let value = self.places.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    /// The number of slots, used or free.
    pub(crate) fn places(&self) -> u32 {
        self.places.len() as u32
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
