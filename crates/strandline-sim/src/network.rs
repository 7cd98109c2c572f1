//! The network between hosts: a link model for each pair of addresses and direction, and the datagrams in flight.

use core::net::{IpAddr, SocketAddr};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use bytes::{Bytes, BytesMut};
use strandline_netem::{Arrival, Change, Link, LinkConfig, LinkStats, Verdict};
use strandline_proto::time::Time;

/// A datagram between two hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// The source, as the receiver sees it.
    pub source: SocketAddr,
    /// The destination.
    pub destination: SocketAddr,
    /// The SCTP packet.
    pub bytes: Bytes,
    /// If set, the sender fragments it into IP packets of this size, which may be fragmented further.
    pub fragment: Option<u16>,
    /// The two ECN bits of the IP header.
    pub ecn: u8,
}

impl Carried {
    /// Returns the size of the IP packet that carries it: SCTP in UDP in IP.
    #[must_use]
    pub fn ip_len(&self) -> usize {
        self.bytes.len() + ip_overhead(self.destination.ip())
    }
}

/// Size in bytes of a buffer for any datagram: an IP payload has at most 65,535 bytes.
pub(crate) const DATAGRAM_BUFFER_LEN: usize = 65_536;

/// Bytes of an IP header (RFC 791 section 3.1, RFC 8200 section 3) and a UDP header (RFC 768).
const IPV4_OVERHEAD: usize = 20 + 8;
const IPV6_OVERHEAD: usize = 40 + 8;

/// 2^64 divided by the golden ratio: multiplication by it spreads similar numbers over all bits (Fibonacci hashing).
const SPREAD_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// ECN bits of an ECN-capable packet, ECT(0) (RFC 3168 section 5).
pub const ECN_CAPABLE: u8 = 0b10;
/// ECN bits of a marked packet, CE (RFC 3168 section 5).
pub const CONGESTION_EXPERIENCED: u8 = 0b11;

/// Returns the bytes of IP and UDP headers around an SCTP packet.
#[must_use]
pub fn ip_overhead(address: IpAddr) -> usize {
    if address.is_ipv4() { IPV4_OVERHEAD } else { IPV6_OVERHEAD }
}

#[derive(Debug)]
struct Flying {
    arrival: Time,
    number: u64,
    datagram: Carried,
}

impl Flying {
    fn key(&self) -> (Time, u64) {
        (self.arrival, self.number)
    }
}

impl PartialEq for Flying {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Flying {}

impl PartialOrd for Flying {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Flying {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// The links and the datagrams on them.
#[derive(Debug)]
pub struct Network {
    seed: u64,
    default: LinkConfig,
    links: BTreeMap<(IpAddr, IpAddr), Link>,
    flying: BinaryHeap<Reverse<Flying>>,
    number: u64,
}

impl Network {
    /// Creates a network in which every link is as `default` until it is changed. The links' random decisions derive
    /// from `seed`.
    #[must_use]
    pub fn new(default: LinkConfig, seed: u64) -> Self {
        Self { seed, default, links: BTreeMap::new(), flying: BinaryHeap::new(), number: 0 }
    }

    /// Returns the link from one address to another, created on first use.
    pub fn link(&mut self, from: IpAddr, to: IpAddr) -> &mut Link {
        let (default, seed) = (&self.default, self.seed);
        self.links
            .entry((from, to))
            .or_insert_with(|| Link::new(default.clone(), seed ^ address_bits(from, to)))
    }

    /// Sets the configuration of links that are not created yet.
    pub fn set_default(&mut self, config: LinkConfig) {
        self.default = config;
    }

    /// Changes every existing link.
    pub fn change_all(&mut self, change: &Change) {
        for link in self.links.values_mut() {
            link.change(change.clone());
        }
    }

    /// Hands a datagram to its link.
    pub fn send(&mut self, now: Time, mut datagram: Carried) -> Verdict {
        let link = self.link(datagram.source.ip(), datagram.destination.ip());
        let len = datagram.ip_len();
        let longest = datagram.fragment.map_or(len, |size| len.min(usize::from(size)));
        // No router fragments IPv6 packets.
        let cuts = link.config().cuts && datagram.destination.is_ipv4();
        let fits = longest <= link.config().size_max;
        // Fragments travel as one packet here, at the link's maximum size: their number does not matter.
        let len = match datagram.fragment {
            Some(_) if fits || cuts => len.min(link.config().size_max),
            _ => len,
        };
        let verdict = link.offer(now.as_nanos(), len);
        if let Verdict::Delivered(copies) = verdict {
            if copies.marked && datagram.ecn != 0 {
                datagram.ecn = CONGESTION_EXPERIENCED;
            }
            if let Some(duplicate) = copies.duplicate {
                self.fly(duplicate, datagram.clone());
            }
            self.fly(copies.first, datagram);
        }
        verdict
    }

    fn fly(&mut self, arrival: Arrival, mut datagram: Carried) {
        if let Some(corruption) = arrival.corruption {
            let mut bytes = BytesMut::from(&datagram.bytes[..]);
            corruption.apply(&mut bytes);
            datagram.bytes = bytes.freeze();
        }
        self.put(Time::from_nanos(arrival.arrival_ns), datagram);
    }

    /// Lets a datagram arrive at a given time, without any link.
    pub fn put(&mut self, arrival: Time, datagram: Carried) {
        self.flying.push(Reverse(Flying { arrival, number: self.number, datagram }));
        self.number += 1;
    }

    /// Returns when the next datagram arrives.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Time> {
        self.flying.peek().map(|flying| flying.0.arrival)
    }

    /// Returns the next datagram that has arrived by `now`.
    pub fn poll(&mut self, now: Time) -> Option<Carried> {
        if self.next_arrival()? > now {
            return None;
        }
        self.flying.pop().map(|flying| flying.0.datagram)
    }

    /// Returns the number of datagrams in flight.
    #[must_use]
    pub fn on_their_way(&self) -> usize {
        self.flying.len()
    }

    /// Returns the links' counters, by source and destination.
    pub fn stats(&self) -> impl Iterator<Item = ((IpAddr, IpAddr), &LinkStats)> {
        self.links.iter().map(|(ends, link)| (*ends, link.stats()))
    }
}

/// Distinguishes links, so that each has its own random decisions.
fn address_bits(from: IpAddr, to: IpAddr) -> u64 {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => u64::from(v4.to_bits()),
        IpAddr::V6(v6) => (v6.to_bits() ^ (v6.to_bits() >> 64)) as u64,
    };
    bits(from).wrapping_mul(SPREAD_FACTOR) ^ bits(to).rotate_left(32)
}

#[cfg(test)]
mod tests;
