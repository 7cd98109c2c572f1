//! Recognises retransmissions of requests that were rejected silently. Clients on UDP that retransmit them
//! get no response either, or a rejection: serving them would be too late for their users and delay new
//! requests. It is a Bloom filter of fixed size with few false positives.

use core::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::transaction::Time;

/// Size of a filter in bits: 4 MB, allocated with the first rejection.
const BITS: usize = 1 << 25;
/// Maximum number of messages in a filter before the other one takes over. With more, new requests would be
/// rejected too often by mistake; the error rate is now at most 1 in 150.
const MESSAGES_MAX: usize = BITS / 16;
/// Maximum time for which a filter is filled, in milliseconds: 64 T1, during which requests are
/// retransmitted.
const TURN_MS: u64 = 32_000;
/// Number of bytes that identify a message; they include the branch and the Call-ID.
const TOLD_BY: usize = 320;

/// Requests that were rejected recently.
#[derive(Debug)]
pub(super) struct Repeats {
    hasher: SipHasher13,
    current: Vec<u64>,
    last: Vec<u64>,
    turned_ms: u64,
    /// Number of messages in the current filter.
    messages: usize,
}

impl Repeats {
    /// Creates empty filters. `key` must be random. No memory is allocated until a request is rejected.
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self {
            hasher: SipHasher13::new_with_key(&key),
            current: Vec::new(),
            last: Vec::new(),
            turned_ms: 0,
            messages: 0,
        }
    }

    /// The index of the word and the bits for a message.
    fn place(&self, message: &[u8]) -> (usize, u64) {
        let mut hasher = self.hasher;
        hasher.write(message.get(..TOLD_BY).unwrap_or(message));
        hasher.write_usize(message.len());
        let hash = hasher.finish();
        // Three bits in one word, for a single memory access.
        let bits = 1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63);
        ((hash >> 20) as usize % (BITS / 64), bits)
    }

    /// Adds a request that was rejected silently.
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

    /// Returns true if the request was probably added before.
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
