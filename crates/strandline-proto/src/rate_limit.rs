//! Token buckets, and the keyed hash that spreads addresses over them. They limit what strangers can cause, so nobody
//! may choose addresses that share the bucket of another one.

use core::hash::Hasher;
use core::net::IpAddr;
use core::time::Duration;

use siphasher::sip::SipHasher13;

use crate::time::Time;

/// Divisor of the rate per second that gives the burst after a quiet period. It lets a storm of set-ups after a
/// network failure pass.
const BURST_SHARE: u32 = 4;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The rate at which a bucket fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Number of tokens in `seconds`.
    pub(crate) tokens: u32,
    pub(crate) seconds: u32,
    /// Number of tokens up to which the bucket fills.
    pub(crate) burst: u32,
}

impl Rate {
    /// Returns a rate whose burst is a quarter of a second's tokens, at least one.
    pub(crate) fn per_second(tokens: u32) -> Self {
        Self { tokens, seconds: 1, burst: (tokens / BURST_SHARE).max(1) }
    }
}

/// A bucket that tokens are taken out of and that fills at a steady rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenBucket {
    pub(crate) tokens: u32,
    /// Time up to which the bucket has been filled.
    filled: Time,
}

impl TokenBucket {
    pub(crate) const fn full(rate: Rate, now: Time) -> Self {
        Self { tokens: rate.burst, filled: now }
    }

    /// Adds the tokens that are due, up to the burst. Tokens that others have added beyond that stay.
    pub(crate) fn fill(&mut self, now: Time, rate: Rate) {
        let nanos = u64::try_from(now.since(self.filled).as_nanos()).unwrap_or(u64::MAX);
        let (tokens, period) = (u64::from(rate.tokens), NANOS_PER_SECOND * u64::from(rate.seconds));
        let whole = (nanos / period).saturating_mul(tokens);
        let part = nanos % period * tokens / period;
        let due = u32::try_from(whole.saturating_add(part)).unwrap_or(u32::MAX);
        if due == 0 {
            return;
        }
        self.tokens = self.tokens.saturating_add(due).min(rate.burst.max(self.tokens));
        self.filled = if self.tokens >= rate.burst {
            now
        } else {
            // A fraction of a token stays due.
            self.filled + Duration::from_nanos(u64::from(due) * period / tokens)
        };
    }

    /// Takes a token. Returns false if there is none.
    pub(crate) fn take(&mut self, now: Time, rate: Rate) -> bool {
        self.fill(now, rate);
        let taken = u32::from(self.tokens > 0);
        self.tokens -= taken;
        taken == 1
    }

    /// Returns true if there is a token to take.
    pub(crate) fn has(mut self, now: Time, rate: Rate) -> bool {
        self.fill(now, rate);
        self.tokens > 0
    }
}

/// A keyed hash of addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddressHash {
    /// Random numbers.
    pub(crate) keys: (u64, u64),
}

impl AddressHash {
    /// Returns the same value for an IPv4 address in both notations, and for all addresses of a /64 of IPv6: it is
    /// mostly one host or one link, and a host can send from all of them.
    pub(crate) fn of(self, address: IpAddr) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        match address.to_canonical() {
            IpAddr::V4(v4) => hasher.write_u32(v4.to_bits()),
            IpAddr::V6(v6) => hasher.write_u64((v6.to_bits() >> 64) as u64),
        }
        hasher.finish()
    }
}
