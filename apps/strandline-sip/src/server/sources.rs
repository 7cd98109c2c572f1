//! Rate limits for the messages of each source: token buckets in a table of fixed size.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use siphasher::sip::SipHasher13;
use strandline_ops::Network;

use crate::transaction::Time;

/// Number of buckets in each of the two rows.
const BUCKETS: usize = 1 << 16;
/// Maximum burst, in seconds of the allowed rate.
const BURST_SECS: u32 = 2;
/// A message in the unit of [`Bucket::taken`]. A rate per second is then also one in this unit per
/// millisecond.
const MESSAGE: u32 = 1000;
/// Maximum rate, in messages per second: a burst at this rate still fits into 32 bits.
const PER_SEC_MAX: u32 = 1_000_000;

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// Tokens taken and not yet replenished, in thousandths of a message.
    taken: u32,
    at_ms: u32,
}

/// The recent traffic of each source. Sources share buckets by hash, with one bucket in each row, and are
/// rejected only if both are empty. A flooding source therefore affects another one only if both buckets of
/// the latter are shared with flooding sources.
#[derive(Debug)]
pub(super) struct Sources {
    per_sec: u32,
    hasher: SipHasher13,
    rows: [Vec<Bucket>; 2],
}

impl Sources {
    /// Creates a table that allows `per_sec` messages per second from an IPv4 address or an IPv6 /64, and
    /// twice that in a burst.
    pub(super) fn new(per_sec: u32, key: [u8; 16]) -> Self {
        let row = || vec![Bucket::default(); BUCKETS];
        Self {
            per_sec: per_sec.min(PER_SEC_MAX),
            hasher: SipHasher13::new_with_key(&key),
            rows: [row(), row()],
        }
    }

    /// Returns true if the source may send a message, and counts it.
    pub(super) fn allows(&mut self, now: Time, source: IpAddr) -> bool {
        let mut hasher = self.hasher;
        Network::of(source).hash(&mut hasher);
        let hash = hasher.finish();
        let now_ms = now.as_millis() as u32;
        let (per_sec, capacity) = (self.per_sec, self.per_sec * BURST_SECS * MESSAGE);
        let mut allowed = false;
        for (row, hash) in self.rows.iter_mut().zip([hash as usize, (hash >> 32) as usize]) {
            let Some(bucket) = row.get_mut(hash % BUCKETS) else { continue };
            let elapsed_ms = now_ms.wrapping_sub(bucket.at_ms);
            bucket.at_ms = now_ms;
            bucket.taken = bucket.taken.saturating_sub(elapsed_ms.saturating_mul(per_sec));
            if bucket.taken + MESSAGE <= capacity {
                bucket.taken += MESSAGE;
                allowed = true;
            }
        }
        allowed
    }
}

#[cfg(test)]
mod tests;
