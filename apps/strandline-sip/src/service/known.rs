//! Over which flows phones have registered of late: who is known there renews its registration. A filter of fixed size, so
//! that the answer costs one look at memory and can be wrong, seldom and only to somebody's advantage.

use core::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::transaction::{Flow, Time};

/// Bits of a filter: a million flows leave one in five of them set.
const BITS: usize = 1 << 22;
/// How long a filter is filled before the other takes its turn, milliseconds: who is not heard of for twice as long is
/// forgotten.
const TURN_MS: u64 = 3_600_000;

/// The flows.
#[derive(Debug)]
pub(super) struct Known {
    hasher: SipHasher13,
    current: Vec<u64>,
    last: Vec<u64>,
    turned_ms: u64,
}

impl Known {
    pub(super) fn new(key: [u8; 16]) -> Self {
        let filter = || vec![0; BITS / 64];
        Self { hasher: SipHasher13::new_with_key(&key), current: filter(), last: filter(), turned_ms: 0 }
    }

    /// The word and the bit of a flow. The number of a connection doesn't matter: after a restart it is another.
    fn place(&self, flow: &Flow) -> (usize, u64) {
        let mut hasher = self.hasher;
        hasher.write_u8(flow.protocol as u8);
        core::hash::Hash::hash(&flow.peer.ip(), &mut hasher);
        // Over a connection the port is the connection's, and another the next time.
        hasher.write_u16(if flow.protocol.is_reliable() { 0 } else { flow.peer.port() });
        let hash = hasher.finish();
        ((hash >> 6) as usize % (BITS / 64), 1 << (hash & 63))
    }

    /// A phone has registered over this flow.
    pub(super) fn insert(&mut self, now: Time, flow: &Flow) {
        if now.as_millis() > self.turned_ms + TURN_MS {
            self.turned_ms = now.as_millis();
            core::mem::swap(&mut self.current, &mut self.last);
            self.current.fill(0);
        }
        let (word, bit) = self.place(flow);
        if let Some(word) = self.current.get_mut(word) {
            *word |= bit;
        }
    }

    /// Has one?
    pub(super) fn contains(&self, flow: &Flow) -> bool {
        let (word, bit) = self.place(flow);
        [&self.current, &self.last].iter().any(|filter| filter.get(word).is_some_and(|word| word & bit != 0))
    }
}

#[cfg(test)]
mod tests;
