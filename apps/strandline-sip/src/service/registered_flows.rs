//! Flows over which phones have registered recently: a request from there renews a registration. A filter of
//! fixed size: a query costs one access to memory. A false positive is rare and only favours the sender.

use core::net::IpAddr;

use crate::transaction::{Flow, Time};

/// Bits of a filter: a million flows leave one in five of them set.
const BITS: usize = 1 << 22;
/// Time for which a filter is filled before the other takes over, in milliseconds: a flow is forgotten after
/// at most twice that time.
const TURN_MS: u64 = 3_600_000;

/// Both halves of a product.
fn mix(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product >> 64) as u64 ^ product as u64
}

/// Flows over which phones have registered recently.
#[derive(Debug)]
pub(super) struct RegisteredFlows {
    key: [u64; 2],
    current: Vec<u64>,
    last: Vec<u64>,
    turned_ms: u64,
}

impl RegisteredFlows {
    pub(super) fn new(key: [u8; 16]) -> Self {
        let filter = || vec![0; BITS / 64];
        let (halves, _) = key.as_chunks::<8>();
        let half = |number: usize| halves.get(number).map_or(0, |half| u64::from_le_bytes(*half));
        Self { key: [half(0), half(1)], current: filter(), last: filter(), turned_ms: 0 }
    }

    /// The word and the bit of a flow. The connection number is left out, because it changes with a restart.
    fn place(&self, flow: &Flow) -> (usize, u64) {
        let (kind, high, low) = match flow.peer.ip() {
            IpAddr::V4(address) => (4, 0, u64::from(address.to_bits())),
            IpAddr::V6(address) => (6, (address.to_bits() >> 64) as u64, address.to_bits() as u64),
        };
        // The source port of a connection changes with each connection.
        let port = if flow.protocol.is_reliable() { 0 } else { flow.peer.port() };
        let rest = u64::from(port) | (flow.protocol as u64) << 16 | kind << 24;
        // The hash is never visible, and a collision only favours a sender: two multiplications are enough;
        // the key makes collisions unpredictable.
        let [one, other] = self.key;
        let hash = mix(mix(low ^ one, rest ^ other) ^ high, one ^ 0x9e37_79b9_7f4a_7c15);
        ((hash >> 6) as usize % (BITS / 64), 1 << (hash & 63))
    }

    /// Adds a flow over which a phone has registered.
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

    /// Whether a phone has registered over a flow.
    pub(super) fn contains(&self, flow: &Flow) -> bool {
        let (word, bit) = self.place(flow);
        [&self.current, &self.last].iter().any(|filter| filter.get(word).is_some_and(|word| word & bit != 0))
    }
}

#[cfg(test)]
mod tests;
