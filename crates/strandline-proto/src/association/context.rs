//! What the associations of an endpoint share: configuration, randomness, events, the message arena, cookie keys and
//! the queue of packets that are built at once and not retransmitted by themselves.

use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;
use rand_core::RngCore;
use siphasher::sip::SipHasher13;
use strandline_wire::number::{Tsn, VerificationTag};

use super::cookie::CookieKeys;
use super::own::OwnAddresses;
use crate::config::EndpointConfig;
use crate::event::{AssociationId, Event};
use crate::inbound::Arena;
use crate::memory::Memory;
use crate::path::KnownPaths;
use crate::stats::EndpointStats;

/// Events kept for an application that does not poll; beyond it only those that a peer can cause at will are dropped.
const EVENTS_SOFT_MAX: usize = 1 << 16;
/// Up to so many associations may keep their buffers for all of `idle_release` after the last exchange.
const BUFFERS_KEPT: u32 = 1 << 12;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: EndpointConfig,
    pub(crate) rng: ChaCha8Rng,
    pub(crate) events: VecDeque<(AssociationId, Event)>,
    pub(crate) arena: Arena,
    pub(crate) cookies: CookieKeys,
    pub(crate) tie_key: (u64, u64),
    /// Packets of associations: INIT, heartbeats, errors, shutdown chunks.
    pub(crate) control: PacketQueue,
    /// Stateless answers: a flood of them must not displace the packets of associations.
    pub(crate) replies: PacketQueue,
    pub(crate) stats: EndpointStats,
    /// What all associations hold, and those of endpoints that share the account.
    pub(crate) memory: Memory,
    /// What ended associations knew of the ways to their peers.
    pub(crate) known: KnownPaths,
    pub(crate) own: OwnAddresses,
}

impl Shared {
    pub(crate) fn event(&mut self, id: AssociationId, event: Event) {
        self.events.push_back((id, event));
    }

    /// May an association that holds so many received bytes take more? All together keep to the limit; once it is
    /// reached, those that hold less than their share of half the limit still may: a few that are never read, or never
    /// complete their messages, must not starve the others.
    #[inline]
    pub(crate) fn has_room(&self, held: u32) -> bool {
        self.memory.received_in_all() < self.config.receive_bytes_max || self.is_within_share(held)
    }

    /// May what lets held data go still be taken, though all together have reached the limit? An eighth on top of it is
    /// kept for that: an association whose gap nothing may fill would hold what it has for as long as others do.
    #[cold]
    pub(crate) fn has_reserve(&self) -> bool {
        let limit = self.config.receive_bytes_max;
        self.memory.received_in_all() < limit.saturating_add(limit / 8)
    }

    #[cold]
    fn is_within_share(&self, held: u32) -> bool {
        let share = self.config.receive_bytes_max / 2 / u64::from(self.memory.associations_in_all().max(1));
        u64::from(held) < share
    }

    /// How long an association keeps its buffers once the peer has everything: the less the more associations there are,
    /// so that a million that take turns don't have them all at once.
    #[inline]
    pub(crate) fn idle_release(&self, longest: Duration) -> Duration {
        let associations = self.memory.associations();
        if associations <= BUFFERS_KEPT {
            return longest;
        }
        longest / (associations / BUFFERS_KEPT)
    }

    /// For events that a peer can cause as often as it likes.
    pub(crate) fn event_if_room(&mut self, id: AssociationId, event: Event) {
        if self.events.len() < EVENTS_SOFT_MAX {
            self.events.push_back((id, event));
        }
    }

    /// A random tag of this shard, never 0 (RFC 9260 section 5.3.1). The caller checks that it is free.
    pub(crate) fn random_tag(&mut self) -> VerificationTag {
        let shard = self.config.shard;
        let mask = (1u32 << shard.bits) - 1;
        loop {
            let tag = (self.rng.next_u32() & !mask) | shard.index;
            if tag != 0 {
                return VerificationTag(tag);
            }
        }
    }

    /// Random bits for jitter.
    pub(crate) fn rng_word(&mut self) -> u32 {
        self.rng.next_u32()
    }

    /// A nonce of a heartbeat, never 0.
    pub(crate) fn nonce(&mut self) -> u64 {
        self.rng.next_u64().max(1)
    }

    pub(crate) fn random_tsn(&mut self) -> Tsn {
        Tsn(self.rng.next_u32())
    }

    /// Tie-Tags (section 5.2.2) are a keyed hash of the association's tags: random to everybody else, never 0, and
    /// no association has to keep them.
    pub(crate) fn tie_tags(&self, local: VerificationTag, peer: VerificationTag) -> (u32, u32) {
        let hash = |tag: u32, side: u8| {
            let mut hasher = SipHasher13::new_with_keys(self.tie_key.0, self.tie_key.1);
            hasher.write_u32(tag);
            hasher.write_u8(side);
            (hasher.finish() as u32).max(1)
        };
        (hash(local.0, 0), hash(peer.0, 1))
    }

    /// The addresses to name to a peer at `peer`: loopback only to loopback, link-local only to link-local, none if
    /// there is just the one that the packet comes from anyway.
    pub(crate) fn local_addresses_for(&self, peer: IpAddr) -> impl Iterator<Item = IpAddr> + '_ {
        let all = &self.config.local_addresses;
        let listed = if all.len() > 1 { &all[..] } else { &[] };
        listed.iter().copied().filter(move |address| scope(*address) >= scope(peer).min(2))
    }
}

/// 0 loopback, 1 link-local, 2 wider.
fn scope(address: IpAddr) -> u8 {
    match address {
        a if a.is_loopback() => 0,
        IpAddr::V4(a) if a.is_link_local() => 1,
        IpAddr::V6(a) if (a.segments()[0] & 0xffc0) == 0xfe80 => 1,
        _ => 2,
    }
}

/// True if packets to and from the address are no unicast (section 8.4 rule 1).
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => !(a.is_unspecified() || a.is_multicast() || a.is_broadcast()),
        IpAddr::V6(a) => !(a.is_unspecified() || a.is_multicast() || a.to_ipv4_mapped().is_some()),
    }
}

/// True if a peer at `source` may name `address` as one of its own.
pub(crate) fn acceptable(address: IpAddr, source: IpAddr) -> bool {
    is_unicast(address) && scope(address) >= scope(source)
}

/// Where a packet goes to and comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) destination: SocketAddr,
    pub(crate) source: Option<IpAddr>,
}

#[derive(Debug)]
struct Queued {
    route: Route,
    bytes: Vec<u8>,
    /// It asks whether a packet of its length arrives: never fragmented.
    whole: bool,
}

impl Queued {
    /// The size that IP fragments it to. Packets of control chunks may be longer than any path must take, and nobody tells of
    /// their loss; those that every path takes go as they are.
    fn fragment(&self) -> Option<u16> {
        let (floor, base) = if self.route.destination.ip().to_canonical().is_ipv4() {
            (CONTROL_FLOOR_IPV4, CONTROL_BASE_IPV4)
        } else {
            (SHARED_MAX, CONTROL_BASE_IPV6)
        };
        (!self.whole && self.bytes.len() > floor).then_some(base)
    }
}

/// The next packets of a queue: how they go, their bytes together, the size of each, and to what size IP fragments them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Popped {
    pub(crate) route: Route,
    pub(crate) len: usize,
    pub(crate) segment_size: usize,
    pub(crate) fragment: Option<u16>,
}

/// A bounded queue of built packets whose buffers are used again.
#[derive(Debug)]
pub(crate) struct PacketQueue {
    packets: VecDeque<Queued>,
    spare: Vec<Vec<u8>>,
    limit: usize,
    /// Bytes of `packets`.
    bytes: usize,
    /// Packets that found the queue full.
    pub(crate) dropped: u64,
}

/// Bytes that wait in one queue, at most: answers to HEARTBEATs may be as long as these.
const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Packets up to this length share a burst: what nearly any path takes.
const SHARED_MAX: usize = 1232;

/// What every path of IPv4 takes (576 bytes), less the headers of IPv4 and UDP.
const CONTROL_FLOOR_IPV4: usize = 548;
/// Longer packets of IPv4 are cut here at the latest, and may be cut by routers (BASE_PLPMTU, RFC 8899 section 5.1.2).
const CONTROL_BASE_IPV4: u16 = 1200;
/// What every path of IPv6 takes.
const CONTROL_BASE_IPV6: u16 = 1280;

/// Spare buffers kept; each may have the size of a path MTU probe.
const SPARES_MAX: usize = 64;

impl PacketQueue {
    pub(crate) fn new(limit: usize) -> Self {
        Self { packets: VecDeque::new(), spare: Vec::new(), limit, bytes: 0, dropped: 0 }
    }

    /// Lets `build` write a packet of at most `size` bytes; it returns the packet's length, 0 for none.
    pub(crate) fn push(&mut self, route: Route, size: usize, build: impl FnOnce(&mut [u8]) -> usize) {
        self.push_with(route, size, false, build);
    }

    /// As [`push`](Self::push), for a packet that must not be fragmented on its way.
    pub(crate) fn push_whole(&mut self, route: Route, size: usize, build: impl FnOnce(&mut [u8]) -> usize) {
        self.push_with(route, size, true, build);
    }

    fn push_with(&mut self, route: Route, size: usize, whole: bool, build: impl FnOnce(&mut [u8]) -> usize) {
        if self.is_full() {
            self.dropped += 1;
            return;
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.resize(size, 0);
        let len = build(&mut buffer);
        buffer.truncate(len);
        if len == 0 {
            self.recycle(buffer);
        } else {
            self.bytes += len;
            self.packets.push_back(Queued { route, bytes: buffer, whole });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// True if the next packet would be dropped.
    pub(crate) fn is_full(&self) -> bool {
        self.packets.len() >= self.limit || self.bytes >= QUEUE_BYTES_MAX
    }

    /// Copies the oldest packets to `out` that go the same way and have one size. Larger ones than `SHARED_MAX`, which may
    /// exceed the path MTU, go alone, and so do those that IP fragments.
    pub(crate) fn pop_burst(&mut self, out: &mut [u8], segments_max: usize) -> Option<Popped> {
        let (route, size, fragment) = self.pop_into(out)?;
        let (mut len, mut count) = (size, 1);
        while count < segments_max && size <= SHARED_MAX && fragment.is_none() {
            let Some(next) = self.packets.front() else { break };
            let alike = next.route == route && next.bytes.len() == size && next.fragment().is_none();
            if !alike || out.len() - len < size {
                break;
            }
            let Some((_, more, _)) = out.get_mut(len..).and_then(|rest| self.pop_into(rest)) else { break };
            len += more;
            count += 1;
        }
        Some(Popped { route, len, segment_size: size, fragment })
    }

    /// Copies the oldest packet to `out`.
    fn pop_into(&mut self, out: &mut [u8]) -> Option<(Route, usize, Option<u16>)> {
        loop {
            let queued = self.packets.pop_front()?;
            let fragment = queued.fragment();
            let Queued { route, bytes: buffer, .. } = queued;
            let len = buffer.len();
            self.bytes = self.bytes.saturating_sub(len);
            let fits = out.get_mut(..len).map(|place| place.copy_from_slice(&buffer)).is_some();
            self.recycle(buffer);
            if fits {
                return Some((route, len, fragment));
            }
            self.dropped += 1;
        }
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARES_MAX {
            self.spare.push(buffer);
        }
    }
}
