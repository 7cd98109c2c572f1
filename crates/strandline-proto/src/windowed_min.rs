//! A minimum that forgets: the smallest value of the current period and of the one before.

/// The minima of two periods. The caller says when a period begins. Zero stands for no value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WindowedMin<T> {
    current: T,
    previous: T,
}

impl<T: Copy + Ord + Default> WindowedMin<T> {
    /// Returns the smaller of both minima, or zero if there is no value.
    #[inline]
    pub(crate) fn get(self) -> T {
        let none = T::default();
        match (self.current, self.previous) {
            (current, previous) if previous == none => current,
            (current, previous) if current == none => previous,
            (current, previous) => current.min(previous),
        }
    }

    /// Records a value of the current period.
    #[inline]
    pub(crate) fn record(&mut self, value: T) {
        let is_first = self.current == T::default();
        self.current = if is_first { value } else { value.min(self.current) };
    }

    /// Begins a period. Values recorded before the one that ends are forgotten.
    #[inline]
    pub(crate) fn begin_period(&mut self) {
        self.previous = core::mem::take(&mut self.current);
    }
}

#[cfg(test)]
mod tests;
