//! How many messages each source may send: token buckets in a table of fixed size.

use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher13;

use crate::transaction::Time;

/// Buckets in each of two rows.
const BUCKETS: usize = 1 << 16;
/// Seconds' worth of messages that may come at once.
const BURST_SECS: u32 = 2;

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// Thousandths of a message that were taken out and have not come back.
    taken: u32,
    at_ms: u32,
}

/// What each source has sent of late. Sources share buckets by hash, one in each of two rows, and are only refused if both
/// are empty: whoever sends too much hurts another only if that one has both in common with such.
#[derive(Debug)]
pub(super) struct Sources {
    per_sec: u32,
    hasher: SipHasher13,
    rows: [Vec<Bucket>; 2],
}

impl Sources {
    /// So many messages a second from an IPv4 address or from 64 bits of an IPv6 address; twice as many at once.
    pub(super) fn new(per_sec: u32, key: [u8; 16]) -> Self {
        let row = || vec![Bucket::default(); BUCKETS];
        Self {
            per_sec: per_sec.min(1_000_000),
            hasher: SipHasher13::new_with_key(&key),
            rows: [row(), row()],
        }
    }

    /// May this source send a message? If so, that is counted.
    pub(super) fn allows(&mut self, now: Time, source: IpAddr) -> bool {
        let mut hasher = self.hasher;
        hasher.write_u64(network(source));
        let hash = hasher.finish();
        let now_ms = now.as_millis() as u32;
        let (per_sec, capacity) = (self.per_sec, self.per_sec * BURST_SECS * 1000);
        let mut allowed = false;
        for (row, hash) in self.rows.iter_mut().zip([hash as usize, (hash >> 32) as usize]) {
            let Some(bucket) = row.get_mut(hash % BUCKETS) else { continue };
            let elapsed_ms = now_ms.wrapping_sub(bucket.at_ms);
            bucket.at_ms = now_ms;
            bucket.taken = bucket.taken.saturating_sub(elapsed_ms.saturating_mul(per_sec));
            if bucket.taken + 1000 <= capacity {
                bucket.taken += 1000;
                allowed = true;
            }
        }
        allowed
    }
}

/// What one customer has: an IPv4 address, or a network of IPv6.
pub(super) fn network(source: IpAddr) -> u64 {
    match source.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

#[cfg(test)]
mod tests;
