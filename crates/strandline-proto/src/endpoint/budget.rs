//! Rate limit for INITs. A flood must not take processing time from existing associations, nor may a single source
//! use up the capacity for all new peers.

use core::hash::Hasher;
use core::net::IpAddr;
use core::time::Duration;

use siphasher::sip::SipHasher13;

use crate::time::Time;

/// Divisor of the rate per second that gives the burst after a quiet period. It lets a storm of set-ups after a
/// network failure pass.
const STORM_SHARE: u32 = 4;

/// Maximum number of buckets that sources are spread over.
const SOURCES_MAX: u32 = 256;

/// Minimum rate of a bucket, in INITs per second.
const SOURCE_RATE_MIN: u32 = 16;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Half of the budget is common to all sources. The other half is divided into equal buckets, and a keyed hash
/// assigns each source address to one.
#[derive(Debug)]
pub(super) struct InitBudget {
    common: Bucket,
    common_rate: u32,
    sources: Box<[Bucket]>,
    source_rate: u32,
    keys: (u64, u64),
}

impl InitBudget {
    /// Creates a budget of `rate` INITs per second for all sources together.
    pub(super) fn new(rate: u32, keys: (u64, u64), now: Time) -> Self {
        let places = (rate / 2 / SOURCE_RATE_MIN).min(SOURCES_MAX);
        let source_rate = (rate / 2).checked_div(places).unwrap_or(0);
        let common_rate = rate - source_rate * places;
        Self {
            common: Bucket { left: storm(common_rate), filled: now },
            common_rate,
            sources: vec![Bucket { left: storm(source_rate), filled: now }; places as usize].into(),
            source_rate,
            keys,
        }
    }

    /// Returns true if one more INIT from the source may be answered, and counts it.
    pub(super) fn take(&mut self, now: Time, source: IpAddr) -> bool {
        if self.common.take(now, self.common_rate) {
            return true;
        }
        let place = self.place(source);
        self.sources.get_mut(place).is_some_and(|own| own.take(now, self.source_rate))
    }

    /// True if one more INIT from the source would be answered.
    pub(super) fn has(&self, now: Time, source: IpAddr) -> bool {
        self.common.level(now, self.common_rate).left > 0
            || self
                .sources
                .get(self.place(source))
                .is_some_and(|own| own.level(now, self.source_rate).left > 0)
    }

    fn place(&self, source: IpAddr) -> usize {
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        match source {
            IpAddr::V4(v4) => hasher.write_u32(v4.to_bits()),
            // A host can send from all addresses of its /64.
            IpAddr::V6(v6) => hasher.write_u64((v6.to_bits() >> 64) as u64),
        }
        // The high bits, scaled to the number of buckets.
        ((u128::from(hasher.finish()) * self.sources.len() as u128) >> 64) as usize
    }
}

fn storm(rate: u32) -> u32 {
    (rate / STORM_SHARE).max(1)
}

/// A token bucket that fills at a steady rate and that INITs empty.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: u32,
    /// Time up to which the bucket has been filled.
    filled: Time,
}

impl Bucket {
    fn take(&mut self, now: Time, rate: u32) -> bool {
        *self = self.level(now, rate);
        let one = u32::from(self.left > 0);
        self.left -= one;
        one == 1
    }

    /// Returns the bucket as it is at `now`.
    fn level(self, now: Time, rate: u32) -> Self {
        let nanos = now.since(self.filled).as_nanos();
        if nanos >= u128::from(NANOS_PER_SECOND) {
            return Self { left: storm(rate), filled: now };
        }
        let rate = u64::from(rate);
        let due = nanos as u64 * rate / NANOS_PER_SECOND;
        if due == 0 {
            return self;
        }
        let left = self.left.saturating_add(due as u32).min(storm(rate as u32));
        // A fraction of a token stays due.
        Self { left, filled: self.filled + Duration::from_nanos(due * NANOS_PER_SECOND / rate) }
    }
}

#[cfg(test)]
mod tests;
