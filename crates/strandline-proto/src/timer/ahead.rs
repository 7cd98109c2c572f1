//! Crowded slots are moved down in slices before they are due, so that no single advance of the wheel has to move
//! everything that a coarse slot holds.
//!
//! The slices of a slot lie one tick apart and end when the slot is due. They begin as late as that allows, at the
//! earliest when the slot before it begins: from then on the levels below have a place for its deadlines, the slots of
//! their next turn. With more deadlines than such slices can take, the slices grow: a slot of level n that holds N
//! deadlines never moves many more than N / 64^n at a time, which is what it expires in a tick on average.

use super::{LEVEL_BITS, LEVELS, LISTS, TimerWheel, list_at, tick_after};

/// Deadlines moved at a time while that suffices: about 10 microseconds' work. A slot that holds fewer is left alone
/// until it is due.
pub(super) const SLICE: u32 = 256;

/// What is known of slots that hold many deadlines.
#[derive(Debug)]
pub(super) struct Crowds {
    /// For each slot how many deadlines were put in since it was last empty or sliced: not fewer than are in it.
    put_in: [u32; LEVELS * LISTS],
    /// Slots that have held more than a slice, a bit each; bits of slots that hold less again are cleared by the way.
    crowded: [u128; LEVELS],
    /// The tick of the next slice.
    pub(super) slice_at: u64,
    /// [`SLICE`], or what a test finds handy: a power of two.
    slice: u32,
}

impl Crowds {
    pub(super) const fn new(slice: u32) -> Self {
        Self { put_in: [0; LEVELS * LISTS], crowded: [0; LEVELS], slice_at: u64::MAX, slice }
    }

    /// Counts one more in a list. True when it holds another slice more.
    #[inline]
    pub(super) fn count_in(&mut self, list: usize) -> bool {
        let Some(count) = self.put_in.get_mut(list) else { return false };
        *count = count.saturating_add(1);
        *count & (self.slice - 1) == 0
    }

    /// A list is empty.
    pub(super) fn forget(&mut self, list: usize) {
        if let Some(count) = self.put_in.get_mut(list) {
            *count = 0;
        }
    }

    /// Less is in a list, after a slice.
    fn count_out(&mut self, list: usize, moved: u32) {
        if let Some(count) = self.put_in.get_mut(list) {
            *count = count.saturating_sub(moved);
        }
    }

    /// The first crowded slot of a level after `elapsed`.
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
    /// The tick at which it begins.
    due: u64,
    /// The ticks of a slot of its level.
    span: u64,
    /// Deadlines in it, or more.
    count: u32,
    /// Deadlines of a slice at least.
    slice: u32,
}

impl Crowd {
    /// The tick of its next slice, `elapsed` being over.
    fn slice_at(&self, elapsed: u64) -> u64 {
        let slices = u64::from(self.count / self.slice).min(self.span);
        (self.due - slices).max(elapsed + 1)
    }

    /// Deadlines of a slice that is taken at `elapsed`.
    fn to_move(&self, elapsed: u64) -> u32 {
        let ticks_left = (self.due - elapsed).min(u64::from(u32::MAX)) as u32;
        self.slice.max(self.count.div_ceil(ticks_left.max(1)))
    }
}

impl TimerWheel {
    /// `list` holds another slice more: notes when to begin with it.
    #[cold]
    pub(super) fn look_at_crowd(&mut self, list: usize) {
        let level = list / LISTS;
        if level == 0 {
            return; // nothing is below it
        }
        if let Some(crowded) = self.crowds.crowded.get_mut(level) {
            *crowded |= 1 << (list % LISTS);
        }
        self.look_for_slices();
    }

    /// Moves the slices that are due now, one of each level.
    #[cold]
    pub(super) fn move_ahead(&mut self) {
        // From the top: what comes down from there may be due to be moved on.
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
                return; // empty: NONE is no entry's number
            };
            self.count_step();
            self.unlink(key);
            self.link_into(self.list_ahead(tick_after(at)), key, at);
        }
        self.crowds.count_out(list, slice);
    }

    /// The list for `tick` that is the lowest: of a level of which it lies in the next turn.
    fn list_ahead(&self, tick: u64) -> usize {
        let turn_of = |tick: u64, level: usize| tick >> (LEVEL_BITS * (level as u32 + 1));
        let next = (0..LEVELS).find(|&level| turn_of(tick, level) == turn_of(self.elapsed, level) + 1);
        next.map_or_else(|| self.list_of(tick), |level| list_at(level, tick))
    }
}
