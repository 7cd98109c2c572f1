//! Numbers of paths, and arrays with an element for each path. Sending halves and paths do not know each
//! other; both know these numbers.

#[cfg(test)]
mod tests;

use core::ops::{Index, IndexMut};

use crate::config::PATHS_MAX;

/// Number of a path within its association, from 0 to `PATHS_MAX` less one. An enum has no other values, so that
/// [`PerPath`] has an element for every index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum PathIndex {
    P0,
    P1,
    P2,
    P3,
    P4,
    P5,
    P6,
    P7,
}

impl PathIndex {
    /// The path of the address that the association was set up with.
    pub(crate) const FIRST: Self = Self::P0;

    /// All of them, in order.
    pub(crate) const ALL: [Self; PATHS_MAX] =
        [Self::P0, Self::P1, Self::P2, Self::P3, Self::P4, Self::P5, Self::P6, Self::P7];

    /// Returns the path with a number, or `None` if no association has so many.
    #[inline]
    pub(crate) fn new(number: usize) -> Option<Self> {
        Self::ALL.get(number).copied()
    }

    /// Returns the number.
    #[inline]
    pub(crate) const fn number(self) -> u8 {
        self as u8
    }

    /// Returns a number with the bit of this path set: an element of a set of paths.
    #[inline]
    pub(crate) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of paths. It is its own iterator, in the order of the numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PathMask(u8);

impl PathMask {
    /// Every path that an association may have.
    pub(crate) const ALL: Self = Self(u8::MAX);

    /// Returns the set of one path.
    #[inline]
    pub(crate) const fn of(path: PathIndex) -> Self {
        Self(path.bit())
    }

    #[inline]
    pub(crate) const fn insert(&mut self, path: PathIndex) {
        self.0 |= path.bit();
    }

    #[inline]
    pub(crate) const fn remove(&mut self, path: PathIndex) {
        self.0 &= !path.bit();
    }

    #[inline]
    pub(crate) const fn contains(self, path: PathIndex) -> bool {
        self.0 & path.bit() != 0
    }

    /// Returns the number of paths.
    #[inline]
    pub(crate) const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// True if there are two paths or more.
    #[inline]
    pub(crate) const fn has_several(self) -> bool {
        self.0 & self.0.wrapping_sub(1) != 0
    }

    /// Returns the path if there is exactly one.
    #[inline]
    pub(crate) fn only(mut self) -> Option<PathIndex> {
        let first = self.next();
        first.filter(|_| self.0 == 0)
    }

    /// Returns the lowest index that is not in the set.
    pub(crate) fn free(self) -> Option<PathIndex> {
        Self(!self.0).next()
    }
}

impl Iterator for PathMask {
    type Item = PathIndex;

    #[inline]
    fn next(&mut self) -> Option<PathIndex> {
        let path = PathIndex::new(self.0.trailing_zeros() as usize)?;
        self.remove(path);
        Some(path)
    }
}

impl From<PathIndex> for usize {
    #[inline]
    fn from(index: PathIndex) -> Self {
        index as Self
    }
}

/// A value for each path that an association may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PerPath<T>([T; PATHS_MAX]);

impl<T> PerPath<T> {
    /// Returns an array with the same value for every path.
    #[inline]
    pub(crate) const fn filled(value: T) -> Self
    where
        T: Copy,
    {
        Self([value; PATHS_MAX])
    }

    /// Returns the values in the order of the paths.
    #[inline]
    pub(crate) fn iter(&self) -> core::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// Returns mutable references to the values in the order of the paths.
    #[inline]
    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }
}

impl<T> Index<PathIndex> for PerPath<T> {
    type Output = T;

    #[inline]
    fn index(&self, path: PathIndex) -> &T {
        &self.0[usize::from(path)]
    }
}

impl<T> IndexMut<PathIndex> for PerPath<T> {
    #[inline]
    fn index_mut(&mut self, path: PathIndex) -> &mut T {
        &mut self.0[usize::from(path)]
    }
}

impl<T> IntoIterator for PerPath<T> {
    type Item = T;
    type IntoIter = core::array::IntoIter<T, PATHS_MAX>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a PerPath<T> {
    type Item = &'a T;
    type IntoIter = core::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut PerPath<T> {
    type Item = &'a mut T;
    type IntoIter = core::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}

/// Values of paths from the first one up to the highest that was asked for. They take no memory before.
#[derive(Debug)]
pub(crate) struct PathVec<T>(Vec<T>);

impl<T> PathVec<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the value of a path. `new` creates those that are missing up to it.
    #[inline]
    pub(crate) fn or_insert_with(&mut self, path: PathIndex, new: impl FnMut(PathIndex) -> T) -> &mut T {
        let (len, wanted) = (self.0.len(), usize::from(path) + 1);
        if len < wanted {
            self.0.reserve_exact(wanted - len);
            self.0.extend(PathIndex::ALL[len..wanted].iter().copied().map(new));
        }
        &mut self.0[usize::from(path)]
    }

    /// Returns the value of a path, if there is one.
    #[inline]
    pub(crate) fn get(&self, path: PathIndex) -> Option<&T> {
        self.0.get(usize::from(path))
    }

    /// Returns the value of a path to its default.
    pub(crate) fn reset(&mut self, path: PathIndex)
    where
        T: Default,
    {
        if let Some(value) = self.0.get_mut(usize::from(path)) {
            *value = T::default();
        }
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the value of the first path, if there is one.
    pub(crate) fn first(&self) -> Option<&T> {
        self.0.first()
    }

    /// Returns the values in the order of the paths.
    pub(crate) fn iter(&self) -> core::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// Returns mutable references to the values in the order of the paths.
    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }

    /// Returns the heap in bytes, without that of the values.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<T>()
    }
}

impl<T> Default for PathVec<T> {
    fn default() -> Self {
        Self::new()
    }
}
