//! Limits the HEARTBEATs to unconfirmed addresses (RFC 9260 section 5.4). A peer can list another host's address, and
//! many associations can list the same one, so the limits apply to all associations of an endpoint together. Answered
//! HEARTBEATs do not count, so that honest peers with several addresses are not slowed down, however many there are.

#[cfg(test)]
mod tests;

use core::net::IpAddr;

use crate::config::Shard;
use crate::rate_limit::{AddressHash, Rate, TokenBucket};
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

/// The budget for HEARTBEATs to unconfirmed addresses.
#[derive(Debug)]
pub(crate) struct VerificationBudget {
    all: TokenBucket,
    rate: Rate,
    places: Vec<TokenBucket>,
    place_rate: Rate,
    peers: Vec<TokenBucket>,
    peer_rate: Rate,
    hash: AddressHash,
}

impl VerificationBudget {
    /// Creates a budget of `rate` unanswered HEARTBEATs per second to all addresses together, and of this shard's
    /// share to each address. `keys` are random, so that nobody can choose addresses that share the bucket of another
    /// one.
    pub(crate) fn new(rate: u32, shard: Shard, keys: (u64, u64), now: Time) -> Self {
        let shards = 1 << shard.bits;
        let place_rate = Rate { tokens: PLACE_RATE, seconds: shards, burst: PLACE_RATE.div_ceil(shards) };
        let peer_rate = Rate::per_second((rate / PEER_SHARE).max(1));
        let rate = Rate::per_second(rate);
        Self {
            all: TokenBucket::full(rate, now),
            rate,
            places: Vec::new(),
            place_rate,
            peers: Vec::new(),
            peer_rate,
            hash: AddressHash { keys },
        }
    }

    /// Returns true if an association with the peer may send one more HEARTBEAT to the address. It counts until it is
    /// [answered](Self::on_answer). `peer` is the address of the association's primary path.
    pub(crate) fn take(&mut self, now: Time, peer: IpAddr, address: IpAddr) -> bool {
        if self.places.is_empty() {
            self.places = vec![TokenBucket::full(self.place_rate, now); PLACES];
            self.peers = vec![TokenBucket::full(self.peer_rate, now); PEERS];
        }
        self.all.fill(now, self.rate);
        let (place, peer) = self.indices(peer, address);
        let (Some(place), Some(peer)) = (self.places.get_mut(place), self.peers.get_mut(peer)) else {
            return false;
        };
        place.fill(now, self.place_rate);
        peer.fill(now, self.peer_rate);
        if self.all.tokens == 0 || place.tokens == 0 || peer.tokens == 0 {
            return false;
        }
        self.all.tokens -= 1;
        place.tokens -= 1;
        peer.tokens -= 1;
        true
    }

    /// Records that a HEARTBEAT that was [taken](Self::take) has been answered. It no longer counts, and one more may
    /// be in flight to that address.
    pub(crate) fn on_answer(&mut self, peer: IpAddr, address: IpAddr) {
        self.all.tokens += u32::from(self.all.tokens < self.rate.burst);
        let (place, peer) = self.indices(peer, address);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.tokens += u32::from(peer.tokens < self.peer_rate.burst);
        }
        if let Some(place) = self.places.get_mut(place) {
            place.tokens = place.tokens.saturating_add(2).min(PLACE_MOST);
        }
    }

    /// Returns the buckets of an address and of a peer.
    fn indices(&self, peer: IpAddr, address: IpAddr) -> (usize, usize) {
        let index = |address: IpAddr, count: usize| self.hash.of(address) as usize % count;
        (index(address, PLACES), index(peer, PEERS))
    }
}
