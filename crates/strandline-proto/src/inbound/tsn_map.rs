//! The TSNs that have arrived: a cumulative TSN and, only while something is missing, a ring of bits for TSNs beyond
//! the gap (RFC 9260 sections 6.2 and 6.7).

use crate::number::Tsn;
use strandline_wire::GapBlock;

/// Maximum distance of a TSN beyond the cumulative TSN: gap blocks have 16 bits (section 3.3.4).
pub(super) const AHEAD_MAX: u32 = u16::MAX as u32;

/// Maximum distance of a TSN that the peer has sent: more than a peer can have in flight. Those from before a
/// reset of all numbers, which moves TSNs by half of their space (RFC 6525 section 5.2.4), seem farther
/// ahead.
pub(super) const JUMP_MAX: u32 = 1 << 26;

const WORD_BITS: u32 = u64::BITS;

/// Number of bits of the smallest ring; it doubles up to 65,536 (8 KB).
const RING_BITS_MIN: u32 = 256;

/// The position of a TSN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The one after the cumulative TSN.
    Next,
    /// Beyond a gap, and not seen yet.
    Ahead,
    /// Arrived before.
    Seen,
    /// Further ahead than can be recorded.
    TooFar,
}

/// The record of TSNs. Without a gap it is two numbers.
#[derive(Debug)]
pub(super) struct TsnMap {
    cumulative: Tsn,
    /// The highest TSN that arrived; equal to `cumulative` when nothing is missing.
    highest: Tsn,
    /// One bit for each TSN in (cumulative, highest], at the TSN modulo the ring's bits (a power of two); all others
    /// are zero. Empty until the first gap.
    ring: Box<[u64]>,
}

impl TsnMap {
    pub(super) fn new(peer_initial_tsn: Tsn) -> Self {
        let before = peer_initial_tsn.previous();
        Self { cumulative: before, highest: before, ring: Box::default() }
    }

    pub(super) const fn cumulative(&self) -> Tsn {
        self.cumulative
    }

    pub(super) const fn highest(&self) -> Tsn {
        self.highest
    }

    /// True if a TSN is missing below the highest one.
    #[inline]
    pub(super) const fn has_gaps(&self) -> bool {
        self.cumulative.0 != self.highest.0
    }

    #[inline]
    pub(super) fn place(&self, tsn: Tsn) -> Place {
        match tsn.distance_from(self.cumulative) {
            1 => Place::Next,
            ahead @ 2..=AHEAD_MAX => {
                if ahead <= self.highest.distance_from(self.cumulative) && self.bit(tsn) {
                    Place::Seen
                } else {
                    Place::Ahead
                }
            }
            0 => Place::Seen,
            _ if tsn.is_before(self.cumulative) => Place::Seen,
            _ => Place::TooFar,
        }
    }

    /// True if this TSN, which is ahead of the cumulative one by less than half of the TSN space, has arrived.
    pub(super) fn contains(&self, tsn: Tsn) -> bool {
        self.place(tsn) == Place::Seen
    }

    /// Records the TSN after the cumulative one, and advances over all that directly follow.
    #[inline]
    pub(super) fn advance(&mut self) {
        let complete = !self.has_gaps();
        self.cumulative = self.cumulative.next();
        if complete {
            self.highest = self.cumulative;
        } else {
            self.absorb();
        }
    }

    /// Records a TSN beyond a gap, which is [`Place::Ahead`].
    pub(super) fn insert_ahead(&mut self, tsn: Tsn) {
        self.reserve(tsn.distance_from(self.cumulative).min(AHEAD_MAX));
        self.set_bit(tsn);
        if tsn.is_after(self.highest) {
            self.highest = tsn;
        }
    }

    /// Records that a TSN beyond the cumulative one, which has arrived, is missing again.
    pub(super) fn remove(&mut self, tsn: Tsn) {
        let (word, shift) = self.position(tsn);
        if let Some(bits) = self.ring.get_mut(word) {
            *bits &= !(1 << shift);
        }
        if tsn != self.highest {
            return;
        }
        // The highest one that is left, a word at a time; the TSN after the cumulative one is missing.
        while self.has_gaps() {
            let (word, shift) = self.position(self.highest);
            let bits = self.ring.get(word).copied().unwrap_or(0) << (WORD_BITS - 1 - shift);
            let missing = bits.leading_zeros().min(shift + 1);
            let left = self.highest.distance_from(self.cumulative);
            self.highest = self.cumulative + left.saturating_sub(missing);
            if missing <= shift {
                return;
            }
        }
    }

    /// Gives up what is missing before `next`, and advances over all that directly follow. The time that it takes does
    /// not depend on how far ahead that is.
    pub(super) fn skip_to(&mut self, next: Tsn) {
        let last = next.previous();
        if !last.is_after(self.cumulative) {
            return;
        }
        if last.distance_from(self.cumulative) >= self.highest.distance_from(self.cumulative) {
            if self.has_gaps() {
                self.ring.fill(0);
            }
            (self.cumulative, self.highest) = (last, last);
            return;
        }
        while self.cumulative != last {
            let (word, shift) = self.position(self.cumulative.next());
            let count = (WORD_BITS - shift).min(last.distance_from(self.cumulative));
            if let Some(bits) = self.ring.get_mut(word) {
                *bits &= !run_mask(shift, count);
            }
            self.cumulative += count;
        }
        self.absorb();
    }

    /// Returns the runs of TSNs beyond the cumulative one, lowest first. Each costs time for the words that it
    /// crosses.
    pub(super) fn gap_blocks(&self) -> GapBlocks<'_> {
        GapBlocks { map: self, from: 1, last: self.highest.distance_from(self.cumulative) }
    }

    /// Frees the ring if nothing is missing.
    pub(super) fn release_idle(&mut self) {
        if !self.has_gaps() {
            self.ring = Box::default();
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.ring)
    }

    /// Advances the cumulative TSN over the run of bits that follows it, clearing them, a word at a time.
    fn absorb(&mut self) {
        while self.has_gaps() {
            let (word, shift) = self.position(self.cumulative.next());
            let Some(bits) = self.ring.get_mut(word) else { return };
            let run = (*bits >> shift).trailing_ones();
            if run == 0 {
                return;
            }
            *bits &= !run_mask(shift, run);
            self.cumulative += run;
        }
    }

    /// Returns the word and bit of a TSN in the ring.
    #[inline]
    fn position(&self, tsn: Tsn) -> (usize, u32) {
        let mask = (self.ring.len() as u32).wrapping_mul(WORD_BITS).wrapping_sub(1);
        let bit = tsn.0 & mask;
        ((bit / WORD_BITS) as usize, bit % WORD_BITS)
    }

    fn bit(&self, tsn: Tsn) -> bool {
        let (word, shift) = self.position(tsn);
        self.ring.get(word).is_some_and(|bits| bits >> shift & 1 == 1)
    }

    fn set_bit(&mut self, tsn: Tsn) {
        let (word, shift) = self.position(tsn);
        if let Some(bits) = self.ring.get_mut(word) {
            *bits |= 1 << shift;
        }
    }

    /// Makes the ring hold offsets up to `ahead`.
    fn reserve(&mut self, ahead: u32) {
        if ahead as usize <= self.ring.len() * WORD_BITS as usize {
            return;
        }
        let bits = ahead.next_power_of_two().max(RING_BITS_MIN);
        let larger = vec![0; (bits / WORD_BITS) as usize].into_boxed_slice();
        let ring = core::mem::replace(&mut self.ring, larger);
        let old = Self { cumulative: self.cumulative, highest: self.highest, ring };
        for block in old.gap_blocks() {
            for offset in block.start..=block.end {
                self.set_bit(self.cumulative + u32::from(offset));
            }
        }
    }
}

/// Returns a word with `count` bits set, from bit `shift` on. They lie within the word.
#[inline]
const fn run_mask(shift: u32, count: u32) -> u64 {
    if count == WORD_BITS { u64::MAX } else { ((1 << count) - 1) << shift }
}

/// See [`TsnMap::gap_blocks`].
#[derive(Debug, Clone)]
pub(super) struct GapBlocks<'a> {
    map: &'a TsnMap,
    /// Offset where the search continues.
    from: u32,
    /// Offset of the highest TSN.
    last: u32,
}

impl GapBlocks<'_> {
    /// Returns the lowest offset from `from` on whose bit is `set`, or `last + 1`.
    fn search(&self, mut from: u32, set: bool) -> u32 {
        while from <= self.last {
            let (word, shift) = self.map.position(self.map.cumulative + from);
            let bits = self.map.ring.get(word).copied().unwrap_or(0);
            let wanted = if set { bits } else { !bits } >> shift;
            if wanted != 0 {
                return (from + wanted.trailing_zeros()).min(self.last + 1);
            }
            from += WORD_BITS - shift;
        }
        self.last + 1
    }
}

impl Iterator for GapBlocks<'_> {
    type Item = GapBlock;

    fn next(&mut self) -> Option<GapBlock> {
        let start = self.search(self.from, true);
        if start > self.last {
            self.from = start;
            return None;
        }
        let after = self.search(start, false);
        self.from = after;
        Some(GapBlock { start: u16::try_from(start).ok()?, end: u16::try_from(after - 1).ok()? })
    }
}

#[cfg(test)]
mod tests;
