//! A hierarchical timing wheel: one deadline for each key. The cost of setting, moving, cancelling and expiring a
//! deadline does not grow with their number.
//!
//! Time is divided into ticks of 2^16 ns (66 us), a fraction of a local network's round-trip time. Each of five
//! levels has 64 slots; a slot of level n spans 64^n ticks. A deadline is stored on the level of the highest group of
//! six bits in which its tick differs from the current one, so it moves down at most once per level as time
//! approaches it. Deadlines beyond the top level (19 hours) wait in a list that is examined each time the top level
//! has turned once. Slots are doubly linked lists through the entries, so that only the table of entries is
//! allocated.
//!
//! A slot with many deadlines is not moved down at once when it is due (a million heartbeats in 30 seconds are
//! 140,000 in a slot of level 2), but in slices during the slot before it (`timer/ahead.rs`). For these each level
//! also has the 64 slots of its next turn.

mod ahead;
#[cfg(test)]
mod tests;

use self::ahead::Crowds;
use crate::time::Time;

/// Nanoseconds of a tick, as a shift.
const TICK_SHIFT: u32 = 16;
/// Number of ticks from which on a deadline is far: 16.8 ms.
const FAR: u64 = 256;
/// Far deadlines are rounded up to a multiple of this: about 1 ms.
const COARSE_NANOS: u64 = 1 << 20;
/// Bits of a tick's number that one level resolves.
const LEVEL_BITS: u32 = 6;
/// Number of slots of one turn of a level.
const SLOTS: usize = 1 << LEVEL_BITS;
const LEVELS: usize = 5;
/// Number of lists of a level: the slots of its turns with even numbers, then of those with odd numbers. One of the
/// two turns is the current one. The other one's slots hold what was moved there [ahead] of time.
const LISTS: usize = 2 * SLOTS;
/// List of the deadlines beyond the top level's span.
const BEYOND: usize = LEVELS * LISTS;

/// No entry follows.
const NONE: u32 = u32::MAX;
/// In `next`: the entry is in no list.
const UNLINKED: u32 = u32::MAX - 1;
/// In `previous`: the entry is the first of the list whose number is in the low bits.
const HEAD: u32 = 1 << 31;
/// Upper bound of keys, exclusive.
const KEYS_MAX: u32 = 1 << 31;

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: Time,
    next: u32,
    previous: u32,
}

impl Entry {
    const UNLINKED: Self = Self { at: Time::MAX, next: UNLINKED, previous: UNLINKED };
}

/// Deadlines by key. Keys are small numbers that are reused (slots of a table): the wheel takes 16 bytes for every
/// key up to the largest, which must be below 2^31.
///
/// A deadline never expires early, and at most one tick late. A deadline that has already passed when it is set
/// expires in the tick after the latest [`pop_expired`](Self::pop_expired), so that a loop over expired keys ends
/// even if each one sets a new deadline in the past.
#[derive(Debug)]
pub struct TimerWheel {
    entries: Vec<Entry>,
    /// First entry of each slot, level by level, and of the list beyond.
    heads: [u32; BEYOND + 1],
    /// Bit sets of the slots that are not empty: for each level those of an even turn and those of an odd one.
    occupied: [[u64; 2]; LEVELS],
    /// The slots that must be moved down in slices.
    crowds: Crowds,
    /// The tick that the slots are relative to. Everything before it has expired.
    elapsed: u64,
    /// The tick of the latest time that the caller passed; `elapsed` catches up with it.
    present: u64,
    len: usize,
    #[cfg(test)]
    steps: u64,
}

impl TimerWheel {
    /// Heap bytes for each key up to the largest one used.
    pub const ENTRY_BYTES: usize = size_of::<Entry>();

    /// Creates an empty wheel that starts at `now`.
    #[must_use]
    pub fn new(now: Time) -> Self {
        let tick = tick_before(now);
        Self {
            entries: Vec::new(),
            heads: [NONE; BEYOND + 1],
            occupied: [[0; 2]; LEVELS],
            crowds: Crowds::new(ahead::SLICE),
            elapsed: tick,
            present: tick,
            len: 0,
            #[cfg(test)]
            steps: 0,
        }
    }

    /// Sets the deadline of `key` and replaces the previous one. `Time::MAX` means never and cancels it.
    pub fn schedule(&mut self, key: u32, at: Time) {
        debug_assert!(key < KEYS_MAX, "timer keys are table slots below 2^31");
        if at == Time::MAX || key >= KEYS_MAX {
            self.cancel(key);
            return;
        }
        let index = key as usize;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, Entry::UNLINKED);
        }
        if self.is_linked(key) {
            self.unlink(key);
        } else {
            self.len += 1;
        }
        let at = at.max(tick_begin(self.present + 1));
        self.link(key, at, tick_after(at));
    }

    /// Returns the time to set for a deadline at `at`. Far deadlines are rounded up to the next millisecond, so that
    /// those of many keys expire together. With a tick for each, every one would wake the process up.
    #[must_use]
    pub fn rounded(&self, at: Time) -> Time {
        if tick_before(at) < self.present + FAR {
            return at;
        }
        at.as_nanos().checked_next_multiple_of(COARSE_NANOS).map_or(at, Time::from_nanos)
    }

    /// Removes the deadline of `key`, if it has one.
    pub fn cancel(&mut self, key: u32) {
        if self.is_linked(key) {
            self.unlink(key);
            self.len -= 1;
        }
    }

    /// Returns the deadline of `key` as it was set, or the tick in which it expires if it had already passed then.
    #[must_use]
    pub fn deadline(&self, key: u32) -> Option<Time> {
        self.entries.get(key as usize).filter(|entry| entry.next != UNLINKED).map(|entry| entry.at)
    }

    /// Returns when to call [`pop_expired`](Self::pop_expired) next: not later than the tick in which the first
    /// deadline expires, but possibly earlier, when a slot of a higher level must be spread over the lower ones. Each
    /// deadline causes at most one early call per level, and every 256 deadlines in one slot one more.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.next_slot().map(|(_, tick)| tick_begin(tick.min(self.crowds.slice_at)))
    }

    /// Removes one key whose deadline has passed at `now`, and returns it. Call it until it returns `None`.
    pub fn pop_expired(&mut self, now: Time) -> Option<u32> {
        self.present = self.present.max(tick_before(now));
        while let Some((list, tick)) = self.next_slot() {
            if tick > self.present {
                break;
            }
            self.count_step();
            self.elapsed = tick;
            if list < LISTS {
                let key = self.head(list);
                self.unlink(key);
                self.len -= 1;
                return Some(key);
            }
            self.spread(list, tick);
        }
        self.elapsed = self.present;
        if self.crowds.slice_at <= self.present {
            self.move_ahead();
        }
        None
    }

    /// Returns the number of keys with a deadline.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no key has a deadline.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * Self::ENTRY_BYTES
    }

    /// Frees the memory of the keys above the largest one with a deadline. Takes time in proportion to their number;
    /// meant for rare use, after many keys have disappeared for good.
    pub fn shrink(&mut self) {
        let used = self.entries.iter().rposition(|entry| entry.next != UNLINKED).map_or(0, |last| last + 1);
        self.entries.truncate(used);
        self.entries.shrink_to_fit();
    }

    /// Returns the first list that is due, and the tick at which it is.
    fn next_slot(&self) -> Option<(usize, u64)> {
        // The first slot that was moved ahead to a level's next turn, which begins when a slot of the level above is
        // due.
        let mut ahead: Option<(usize, u64)> = None;
        for (level, occupied) in self.occupied.iter().enumerate() {
            let shift = LEVEL_BITS * level as u32;
            let turn = self.elapsed >> (shift + LEVEL_BITS);
            let [even, odd] = *occupied;
            let (present, next) = if turn & 1 == 0 { (even, odd) } else { (odd, even) };
            if present != 0 {
                // Past slots are empty, so the lowest bit is the next in time. All slots of a lower level come before
                // any other slot of the levels above it.
                let due = slot_of(level, turn, present);
                return Some(ahead.filter(|first| first.1 < due.1).unwrap_or(due));
            }
            if next != 0 {
                let due = slot_of(level, turn + 1, next);
                // At the same tick the higher level comes first, because it may contain something for the lower one.
                ahead = Some(ahead.filter(|first| first.1 < due.1).unwrap_or(due));
            }
        }
        let turn = LEVEL_BITS * LEVELS as u32;
        let beyond = (self.head(BEYOND) != NONE).then(|| (BEYOND, ((self.elapsed >> turn) + 1) << turn));
        ahead.filter(|first| beyond.is_none_or(|beyond| first.1 < beyond.1)).or(beyond)
    }

    /// Moves the entries of a list that has become due at `tick` to lower levels, and those of the slots between
    /// these levels that begin then and were filled ahead of time.
    fn spread(&mut self, list: usize, tick: u64) {
        self.spread_one(list);
        for level in (1..list / LISTS).rev() {
            self.spread_one(list_at(level, tick));
        }
    }

    fn spread_one(&mut self, list: usize) {
        let mut key = self.head(list);
        self.set_head(list, NONE);
        while let Some(&entry) = self.entries.get(key as usize) {
            self.count_step();
            self.link(key, entry.at, tick_after(entry.at));
            key = entry.next;
        }
    }

    /// Links an entry that is in no list into the one for `tick`, which is not before `elapsed`.
    fn link(&mut self, key: u32, at: Time, tick: u64) {
        self.link_into(self.list_of(tick), key, at);
    }

    fn link_into(&mut self, list: usize, key: u32, at: Time) {
        let next = self.head(list);
        if let Some(follower) = self.entries.get_mut(next as usize) {
            follower.previous = key;
        }
        if let Some(entry) = self.entries.get_mut(key as usize) {
            *entry = Entry { at, next, previous: HEAD | list as u32 };
        }
        self.set_head(list, key);
        if self.crowds.count_in(list) {
            self.look_at_crowd(list);
        }
    }

    fn unlink(&mut self, key: u32) {
        let Some(entry) = self.entries.get_mut(key as usize) else { return };
        let Entry { next, previous, .. } = *entry;
        *entry = Entry::UNLINKED;
        if let Some(follower) = self.entries.get_mut(next as usize) {
            follower.previous = previous;
        }
        if previous & HEAD != 0 {
            self.set_head((previous & !HEAD) as usize, next);
        } else if let Some(leader) = self.entries.get_mut(previous as usize) {
            leader.next = next;
        }
    }

    fn list_of(&self, tick: u64) -> usize {
        let differing = (tick ^ self.elapsed) | 1;
        let level = (differing.ilog2() / LEVEL_BITS) as usize;
        if level >= LEVELS {
            return BEYOND;
        }
        list_at(level, tick)
    }

    fn is_linked(&self, key: u32) -> bool {
        self.entries.get(key as usize).is_some_and(|entry| entry.next != UNLINKED)
    }

    fn head(&self, list: usize) -> u32 {
        self.heads.get(list).copied().unwrap_or(NONE)
    }

    fn set_head(&mut self, list: usize, key: u32) {
        if let Some(head) = self.heads.get_mut(list) {
            *head = key;
        }
        if let Some(occupied) = self.occupied.as_flattened_mut().get_mut(list / SLOTS) {
            let bit = 1 << (list % SLOTS);
            if key == NONE {
                *occupied &= !bit;
                self.crowds.forget(list);
            } else {
                *occupied |= bit;
            }
        }
    }

    #[cfg(test)]
    fn count_step(&mut self) {
        self.steps += 1;
    }

    #[cfg(not(test))]
    fn count_step(&mut self) {}
}

/// Returns the list of the slot of `level` that contains `tick`.
fn list_at(level: usize, tick: u64) -> usize {
    level * LISTS + (tick >> (LEVEL_BITS * level as u32)) as usize % LISTS
}

/// Returns the first of the `occupied` slots of a turn of `level`, and the tick at which it is due.
fn slot_of(level: usize, turn: u64, occupied: u64) -> (usize, u64) {
    let slot = (turn << LEVEL_BITS) | u64::from(occupied.trailing_zeros());
    (level * LISTS + slot as usize % LISTS, slot << (LEVEL_BITS * level as u32))
}

fn tick_begin(tick: u64) -> Time {
    Time::from_nanos(tick.saturating_mul(1 << TICK_SHIFT))
}

/// Returns the tick that has begun at `time`.
fn tick_before(time: Time) -> u64 {
    time.as_nanos() >> TICK_SHIFT
}

/// Returns the first tick that begins at `time` or after it.
fn tick_after(time: Time) -> u64 {
    time.as_nanos().div_ceil(1 << TICK_SHIFT)
}
