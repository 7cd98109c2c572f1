//! Crowded slots are moved down in slices before they are due, so that no single advance of the wheel has to move
//! everything that a coarse slot holds.
//!
//! The slices of a slot are one tick apart and end when the slot is due. They begin as late as possible, and at the
//! earliest when the slot before it begins: from then on the levels below can hold its deadlines, in the slots of
//! their next turn. If there are more deadlines than such slices can take, the slices grow. A slot of level n that
//! holds N deadlines never moves many more than N / 64^n at a time, which is the average number that expires in a
//! tick.

use super::{LEVEL_BITS, LEVELS, LISTS, TimerWheel, list_at, tick_after};

/// Number of deadlines moved at a time while that suffices: about 10 microseconds of work. A slot with fewer is not
/// moved until it is due.
pub(super) const SLICE: u32 = 256;

/// State of the slots that hold many deadlines.
#[derive(Debug)]
pub(super) struct Crowds {
    /// For each slot, how many deadlines were added since it was last empty or sliced: an upper bound of its size.
    put_in: [u32; LEVELS * LISTS],
    /// Bit sets of the slots that have held more than a slice. Bits of slots that hold less again are cleared when
    /// they are visited.
    crowded: [u128; LEVELS],
    /// The tick of the next slice.
    pub(super) slice_at: u64,
    /// [`SLICE`], or a smaller power of two in tests.
    slice: u32,
}

impl Crowds {
    pub(super) const fn new(slice: u32) -> Self {
        Self { put_in: [0; LEVELS * LISTS], crowded: [0; LEVELS], slice_at: u64::MAX, slice }
    }

    /// Counts one more deadline in a list. Returns true if the list has grown by another slice.
    #[inline]
    pub(super) fn count_in(&mut self, list: usize) -> bool {
        let Some(count) = self.put_in.get_mut(list) else { return false };
        *count = count.saturating_add(1);
        *count & (self.slice - 1) == 0
    }

    /// Resets the count of a list that is empty.
    pub(super) fn forget(&mut self, list: usize) {
        if let Some(count) = self.put_in.get_mut(list) {
            *count = 0;
        }
    }

    /// Reduces the count of a list after a slice.
    fn count_out(&mut self, list: usize, moved: u32) {
        if let Some(count) = self.put_in.get_mut(list) {
            *count = count.saturating_sub(moved);
        }
    }

    /// Returns the first crowded slot of a level after `elapsed`.
    fn first(&mut self, level: usize, elapsed: u64) -> Option<Crowd> {
        let shift = LEVEL_BITS * level as u32;
        let slot = (elapsed >> shift) + 1;
        let crowded = self.crowded.get_mut(level)?;
        while *crowded != 0 {
            let slot = slot + u64::from(crowded.rotate_right((slot % LISTS as u64) as u32).trailing_zeros());
            let list = list_at(level, slot << shift);
            let count = self.put_in.get(list).copied().unwrap_or(0);
            if count >= self.slice {
                return Some(Crowd { list, due: slot << shift, span: 1 << shift, count, slice: self.slice });
            }
            *crowded &= !(1 << (slot % LISTS as u64));
        }
        None
    }
}

/// A slot to be moved down in slices.
struct Crowd {
    list: usize,
    /// The tick at which the slot begins.
    due: u64,
    /// Number of ticks of a slot on its level.
    span: u64,
    /// Upper bound of the number of deadlines in it.
    count: u32,
    /// Minimum number of deadlines in a slice.
    slice: u32,
}

impl Crowd {
    /// Returns the tick of its next slice after `elapsed`.
    fn slice_at(&self, elapsed: u64) -> u64 {
        let slices = u64::from(self.count / self.slice).min(self.span);
        (self.due - slices).max(elapsed + 1)
    }

    /// Returns the number of deadlines of a slice that is taken at `elapsed`.
    fn to_move(&self, elapsed: u64) -> u32 {
        let ticks_left = (self.due - elapsed).min(u64::from(u32::MAX)) as u32;
        self.slice.max(self.count.div_ceil(ticks_left.max(1)))
    }
}

impl TimerWheel {
    /// Schedules the slices of a list that has grown by another slice.
    #[cold]
    pub(super) fn look_at_crowd(&mut self, list: usize) {
        let level = list / LISTS;
        if level == 0 {
            return; // No level is below it.
        }
        if let Some(crowded) = self.crowds.crowded.get_mut(level) {
            *crowded |= 1 << (list % LISTS);
        }
        self.look_for_slices();
    }

    /// Moves the slices that are due now, one of each level.
    #[cold]
    pub(super) fn move_ahead(&mut self) {
        // From the top: deadlines that come down from there may have to be moved on.
        for level in (1..LEVELS).rev() {
            if let Some(crowd) = self.crowds.first(level, self.elapsed)
                && crowd.slice_at(self.elapsed.saturating_sub(1)) <= self.elapsed
            {
                self.move_slice(crowd.list, crowd.to_move(self.elapsed));
            }
        }
        self.look_for_slices();
    }

    fn look_for_slices(&mut self) {
        let slices = (1..LEVELS).filter_map(|level| self.crowds.first(level, self.elapsed));
        self.crowds.slice_at = slices.map(|crowd| crowd.slice_at(self.elapsed)).min().unwrap_or(u64::MAX);
    }

    fn move_slice(&mut self, list: usize, slice: u32) {
        for _ in 0..slice {
            let key = self.head(list);
            let Some(at) = self.entries.get(key as usize).map(|entry| entry.at) else {
                return; // Empty: NONE is not the number of an entry.
            };
            self.count_step();
            self.unlink(key);
            self.link_into(self.list_ahead(tick_after(at)), key, at);
        }
        self.crowds.count_out(list, slice);
    }

    /// Returns the lowest list for `tick`: on a level where the tick lies in the next turn.
    fn list_ahead(&self, tick: u64) -> usize {
        let turn_of = |tick: u64, level: usize| tick >> (LEVEL_BITS * (level as u32 + 1));
        let next = (0..LEVELS).find(|&level| turn_of(tick, level) == turn_of(self.elapsed, level) + 1);
        next.map_or_else(|| self.list_of(tick), |level| list_at(level, tick))
    }
}
