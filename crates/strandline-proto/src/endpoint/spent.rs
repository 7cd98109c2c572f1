//! Cookies whose association has ended. A State Cookie is valid for its whole lifetime, so a COOKIE ECHO that the
//! network repeats after the association's end would make a second association, and deliver the DATA bundled with it
//! a second time. The tag in the cookie is ours and never used twice, so remembering it is enough.

use core::time::Duration;
use std::collections::VecDeque;

use hashbrown::HashTable;
use strandline_wire::number::VerificationTag;

use crate::time::Time;

/// Tags remembered at most: beyond it the oldest are forgotten before their time. 16 bytes each.
const SPENT_MAX: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct SpentCookies {
    tags: HashTable<u32>,
    /// Oldest first.
    order: VecDeque<(Time, u32)>,
}

/// Our tags are random: mixing them is enough.
fn hash(tag: u32) -> u64 {
    u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

impl SpentCookies {
    /// The association with this tag has ended; its cookie is good for `lifetime` at most.
    pub(super) fn insert(&mut self, now: Time, tag: VerificationTag, lifetime: Duration) {
        while let Some((until, oldest)) = self.order.front().copied()
            && (until <= now || self.order.len() >= SPENT_MAX)
        {
            self.order.pop_front();
            if let Ok(entry) = self.tags.find_entry(hash(oldest), |tag| *tag == oldest) {
                entry.remove();
            }
        }
        if !self.contains(tag) {
            self.tags.insert_unique(hash(tag.0), tag.0, |tag| hash(*tag));
            self.order.push_back((now + lifetime, tag.0));
        }
    }

    pub(super) fn contains(&self, tag: VerificationTag) -> bool {
        self.tags.find(hash(tag.0), |known| *known == tag.0).is_some()
    }
}

#[cfg(test)]
mod tests;
