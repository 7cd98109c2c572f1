//! Rate limit for INITs. A flood must not take processing time from existing associations, nor may a single source
//! use up the capacity for all new peers.

use core::net::IpAddr;

use crate::rate_limit::{AddressHash, Rate, TokenBucket};
use crate::time::Time;

/// Maximum number of buckets that sources are spread over.
const SOURCES_MAX: u32 = 256;

/// Minimum rate of a bucket, in INITs per second.
const SOURCE_RATE_MIN: u32 = 16;

/// Half of the budget is common to all sources. The other half is divided into equal buckets, and a keyed hash
/// assigns each source address to one.
#[derive(Debug)]
pub(super) struct InitBudget {
    common: TokenBucket,
    common_rate: Rate,
    sources: Box<[TokenBucket]>,
    source_rate: Rate,
    hash: AddressHash,
}

impl InitBudget {
    /// Creates a budget of `rate` INITs per second for all sources together.
    pub(super) fn new(rate: u32, keys: (u64, u64), now: Time) -> Self {
        let places = (rate / 2 / SOURCE_RATE_MIN).min(SOURCES_MAX);
        let source_rate = (rate / 2).checked_div(places).unwrap_or(0);
        let common_rate = Rate::per_second(rate - source_rate * places);
        let source_rate = Rate::per_second(source_rate);
        Self {
            common: TokenBucket::full(common_rate, now),
            common_rate,
            sources: vec![TokenBucket::full(source_rate, now); places as usize].into(),
            source_rate,
            hash: AddressHash { keys },
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
        self.common.has(now, self.common_rate)
            || self.sources.get(self.place(source)).is_some_and(|own| own.has(now, self.source_rate))
    }

    fn place(&self, source: IpAddr) -> usize {
        // The high bits, scaled to the number of buckets.
        ((u128::from(self.hash.of(source)) * self.sources.len() as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests;
