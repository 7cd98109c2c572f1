//! An index of the messages in I-DATA chunks that may be delivered in parts, for a receive buffer that is full of
//! incomplete ones.

use std::collections::BTreeSet;

use strandline_wire::IData;

use crate::number::StreamId;

/// Maximum number of messages among which the longest is searched.
const CANDIDATES_MAX: usize = 64;

/// Identifies a message that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) stream: StreamId,
    pub(super) unordered: bool,
    pub(super) mid: u32,
}

impl Key {
    pub(super) const fn of(data: &IData<'_>) -> Self {
        Self { stream: data.stream, unordered: data.unordered, mid: data.mid.0 }
    }
}

/// The messages of which something can be read: ordered ones whose turn has come, and unordered ones.
#[derive(Debug, Default)]
pub(super) struct Readable {
    now: BTreeSet<Key>,
    /// Unordered ones that wait for the rest of another one of their stream, of which a part was delivered. If there
    /// is no such message, at least one of each stream is in `now`.
    behind: BTreeSet<Key>,
}

impl Readable {
    /// Records whether something of a message can be read. `waits`: of an unordered message of its stream a part was
    /// delivered, and the others wait for the rest.
    pub(super) fn set(&mut self, key: Key, is_readable: bool, waits: bool) {
        if is_readable {
            if !self.behind.contains(&key) {
                self.now.insert(key);
            }
            return;
        }
        if !self.now.remove(&key) {
            self.behind.remove(&key);
        }
        if key.unordered
            && !waits
            && let Some(next) = first_of(&self.behind, key.stream)
        {
            self.behind.remove(&next);
            self.now.insert(next);
        }
    }

    /// Returns an unordered message of a stream of which something can be read.
    pub(super) fn unordered_of(&self, stream: StreamId) -> Option<Key> {
        first_of(&self.now, stream).or_else(|| first_of(&self.behind, stream))
    }

    /// Returns the longest of the first few messages. `len` returns the length of one, or `None` if it waits for the
    /// rest of another one: those are not asked for again before.
    pub(super) fn longest(&mut self, mut len: impl FnMut(&Key) -> Option<usize>) -> Option<Key> {
        let (mut found, mut longest, mut waiting) = (0, None, Vec::new());
        for key in &self.now {
            let Some(len) = len(key) else {
                waiting.push(*key);
                continue;
            };
            longest = longest.max(Some((len, *key)));
            found += 1;
            if found == CANDIDATES_MAX {
                break;
            }
        }
        for key in waiting {
            self.now.remove(&key);
            self.behind.insert(key);
        }
        longest.map(|(_, key)| key)
    }

    /// Returns the heap bytes of the index.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + (self.now.len() + self.behind.len()) * size_of::<Key>()
    }
}

/// Returns the first unordered message of a stream.
fn first_of(keys: &BTreeSet<Key>, stream: StreamId) -> Option<Key> {
    let key = |mid| Key { stream, unordered: true, mid };
    keys.range(key(0)..=key(u32::MAX)).next().copied()
}

#[cfg(test)]
mod tests;
