//! Requests that were refused and not told so: whoever asks again over UDP hears nothing either, or that it is refused. To
//! serve it then would be too late for whom it is for, and let those wait who ask for the first time. A filter of fixed
//! size, which is wrong seldom.

use core::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::transaction::Time;

/// Bits of a filter: 4 MB, once something is refused.
const BITS: usize = 1 << 25;
/// Messages in a filter before the other takes its turn. With more it would be wrong too often, and refuse what comes for the
/// first time: now once in 150 times at worst.
const MESSAGES_MAX: usize = BITS / 16;
/// How long a filter is filled before the other takes its turn, milliseconds: 64 T1, for which requests are repeated.
const TURN_MS: u64 = 32_000;
/// Bytes of a message that tell it from others: branch and Call-ID are among them.
const TOLD_BY: usize = 320;

/// What was refused of late.
#[derive(Debug)]
pub(super) struct Repeats {
    hasher: SipHasher13,
    current: Vec<u64>,
    last: Vec<u64>,
    turned_ms: u64,
    /// Messages in the current filter.
    messages: usize,
}

impl Repeats {
    /// `key` must be random. The filters take no memory until something is refused.
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self {
            hasher: SipHasher13::new_with_key(&key),
            current: Vec::new(),
            last: Vec::new(),
            turned_ms: 0,
            messages: 0,
        }
    }

    /// The word and the bits of a message.
    fn place(&self, message: &[u8]) -> (usize, u64) {
        let mut hasher = self.hasher;
        hasher.write(message.get(..TOLD_BY).unwrap_or(message));
        hasher.write_usize(message.len());
        let hash = hasher.finish();
        // Three bits in one word: one look at memory.
        let bits = 1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63);
        ((hash >> 20) as usize % (BITS / 64), bits)
    }

    /// It was refused and not told.
    pub(super) fn insert(&mut self, now: Time, message: &[u8]) {
        let full = now.as_millis() > self.turned_ms + TURN_MS || self.messages >= MESSAGES_MAX;
        if full || self.current.is_empty() {
            (self.turned_ms, self.messages) = (now.as_millis(), 0);
            core::mem::swap(&mut self.current, &mut self.last);
            self.current.clear();
            self.current.resize(BITS / 64, 0);
        }
        let (word, bits) = self.place(message);
        if let Some(word) = self.current.get_mut(word)
            && *word & bits != bits
        {
            *word |= bits;
            self.messages += 1;
        }
    }

    /// Was it?
    pub(super) fn contains(&self, message: &[u8]) -> bool {
        if self.current.is_empty() {
            return false;
        }
        let (word, bits) = self.place(message);
        [&self.current, &self.last]
            .iter()
            .any(|filter| filter.get(word).is_some_and(|word| word & bits == bits))
    }
}

#[cfg(test)]
mod tests;
