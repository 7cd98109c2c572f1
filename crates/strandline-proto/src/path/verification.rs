//! Limits the HEARTBEATs to unconfirmed addresses (RFC 9260 section 5.4). A peer can list another host's address, and
//! many associations can list the same one, so the limits apply to all associations of an endpoint together. Answered
//! HEARTBEATs do not count, so that honest peers with several addresses are not slowed down, however many there are.

#[cfg(test)]
mod tests;

use core::hash::Hasher;
use core::net::IpAddr;
use core::time::Duration;

use siphasher::sip::SipHasher13;

use crate::config::Shard;
use crate::time::Time;

/// Number of buckets that a keyed hash spreads addresses over. They take 16 bytes each and are allocated with the
/// first HEARTBEAT.
const PLACES: usize = 4096;

/// Unanswered HEARTBEATs per second for each bucket, from all shards together; also the burst after a quiet period.
const PLACE_RATE: u32 = 5;

/// Maximum number of HEARTBEATs in flight to the addresses of a bucket that answer.
const PLACE_MOST: u32 = 64;

/// Number of buckets that a keyed hash spreads peers over, by the address of their primary path.
const PEERS: usize = 256;

/// Divisor of the total rate that gives the rate of one peer, so that no peer delays the confirmation of all others.
const PEER_SHARE: u32 = 4;

/// Divisor of the rate per second that gives the burst to all addresses together after a quiet period.
const STORM_SHARE: u32 = 4;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The budget for HEARTBEATs to unconfirmed addresses.
#[derive(Debug)]
pub(crate) struct VerificationBudget {
    all: Bucket,
    rate: u32,
    /// Number of endpoints that share the limit of each address.
    shards: u32,
    places: Vec<Bucket>,
    peers: Vec<Bucket>,
    keys: (u64, u64),
}

impl VerificationBudget {
    /// Creates a budget of `rate` unanswered HEARTBEATs per second to all addresses together, and of this shard's
    /// share to each address. `keys` are random, so that nobody can choose addresses that share the bucket of another
    /// one.
    pub(crate) fn new(rate: u32, shard: Shard, keys: (u64, u64), now: Time) -> Self {
        let all = Bucket { left: storm(rate), filled: now };
        Self { all, rate, shards: 1 << shard.bits, places: Vec::new(), peers: Vec::new(), keys }
    }

    /// Returns true if an association with the peer may send one more HEARTBEAT to the address. It counts until it is
    /// [answered](Self::on_answer). `peer` is the address of the association's primary path.
    pub(crate) fn take(&mut self, now: Time, peer: IpAddr, address: IpAddr) -> bool {
        let peer_rate = (self.rate / PEER_SHARE).max(1);
        let place_most = PLACE_RATE.div_ceil(self.shards);
        if self.places.is_empty() {
            self.places = vec![Bucket { left: place_most, filled: now }; PLACES];
            self.peers = vec![Bucket { left: storm(peer_rate), filled: now }; PEERS];
        }
        self.all.fill(now, (self.rate, 1), storm(self.rate));
        let (place, peer) = (self.hash(address) % PLACES, self.hash(peer) % PEERS);
        let (Some(place), Some(peer)) = (self.places.get_mut(place), self.peers.get_mut(peer)) else {
            return false;
        };
        place.fill(now, (PLACE_RATE, self.shards), place_most);
        peer.fill(now, (peer_rate, 1), storm(peer_rate));
        if self.all.left == 0 || place.left == 0 || peer.left == 0 {
            return false;
        }
        self.all.left -= 1;
        place.left -= 1;
        peer.left -= 1;
        true
    }

    /// Records that a HEARTBEAT that was [taken](Self::take) has been answered. It no longer counts, and one more may
    /// be in flight to that address.
    pub(crate) fn on_answer(&mut self, peer: IpAddr, address: IpAddr) {
        self.all.left += u32::from(self.all.left < storm(self.rate));
        let (place, peer) = (self.hash(address) % PLACES, self.hash(peer) % PEERS);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.left += u32::from(peer.left < storm((self.rate / PEER_SHARE).max(1)));
        }
        if let Some(place) = self.places.get_mut(place) {
            place.left = place.left.saturating_add(2).min(PLACE_MOST);
        }
    }

    fn hash(&self, address: IpAddr) -> usize {
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        match address.to_canonical() {
            IpAddr::V4(v4) => hasher.write_u32(v4.to_bits()),
            // A /64 network is mostly one host or one link.
            IpAddr::V6(v6) => hasher.write_u64((v6.to_bits() >> 64) as u64),
        }
        hasher.finish() as usize
    }
}

fn storm(rate: u32) -> u32 {
    (rate / STORM_SHARE).max(1)
}

/// A token bucket that fills at a steady rate.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: u32,
    /// Time up to which the bucket has been filled.
    filled: Time,
}

impl Bucket {
    /// Adds the tokens that are due, up to `most`, of which there are `tokens` in so many `seconds`. Tokens from
    /// answers beyond that stay.
    fn fill(&mut self, now: Time, (tokens, seconds): (u32, u32), most: u32) {
        let nanos = u64::try_from(now.since(self.filled).as_nanos()).unwrap_or(u64::MAX);
        let period = NANOS_PER_SECOND * u64::from(seconds);
        let whole = nanos / period * u64::from(tokens);
        let part = nanos % period * u64::from(tokens) / period;
        let due = u32::try_from(whole.saturating_add(part)).unwrap_or(u32::MAX);
        if due == 0 {
            return;
        }
        let left = self.left.saturating_add(due).min(most.max(self.left));
        // A fraction of a token stays due, unless the bucket is full.
        let step = Duration::from_nanos(u64::from(due) * period / u64::from(tokens));
        self.filled = if left >= most { now } else { self.filled + step };
        self.left = left;
    }
}
