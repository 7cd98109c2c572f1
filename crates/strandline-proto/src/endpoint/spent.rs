//! Cookies whose association has ended. A State Cookie stays valid for its whole lifetime, so a COOKIE ECHO that the
//! network repeats after the end of the association would create a second one and deliver its bundled DATA again. The
//! tag in the cookie is ours and never reused, so remembering it is enough.

use core::time::Duration;
use std::collections::VecDeque;

use hashbrown::HashTable;
use strandline_wire::number::VerificationTag;

use super::split::hash_tag;
use crate::time::Time;

/// Maximum number of remembered tags, of 16 bytes each. Beyond it the oldest are forgotten early.
const SPENT_MAX: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct SpentCookies {
    tags: HashTable<u32>,
    /// The tags with their expiry, oldest first.
    order: VecDeque<(Time, u32)>,
}

impl SpentCookies {
    /// Records that the association with this tag has ended. Its cookie is valid for at most `lifetime`.
    pub(super) fn insert(&mut self, now: Time, tag: VerificationTag, lifetime: Duration) {
        while let Some((until, oldest)) = self.order.front().copied()
            && (until <= now || self.order.len() >= SPENT_MAX)
        {
            self.order.pop_front();
            if let Ok(entry) = self.tags.find_entry(hash_tag(oldest), |tag| *tag == oldest) {
                entry.remove();
            }
        }
        if !self.contains(tag) {
            self.tags.insert_unique(hash_tag(tag.0), tag.0, |tag| hash_tag(*tag));
            self.order.push_back((now + lifetime, tag.0));
        }
    }

    pub(super) fn contains(&self, tag: VerificationTag) -> bool {
        self.tags.find(hash_tag(tag.0), |known| *known == tag.0).is_some()
    }
}

#[cfg(test)]
mod tests;
