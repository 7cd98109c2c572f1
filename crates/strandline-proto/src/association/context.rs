//! The context of an association, passed to every procedure as `cx`. It holds what the associations of an endpoint
//! share: configuration, randomness, events, the message arena, cookie keys, and the queue of packets that are built at
//! once and not retransmitted by themselves.

use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;

use bytes::Bytes;
use rand_chacha::ChaCha8Rng;
use rand_core::RngCore;
use siphasher::sip::SipHasher13;
use strandline_wire::cause::RawCause;
use strandline_wire::number::{Tsn, VerificationTag};

use super::cookie::CookieKeys;
use super::host_addresses::HostAddresses;
use super::keys::{KeyRing, RANDOM_LEN};
use crate::config::EndpointConfig;
use crate::event::{AssociationId, Event};
use crate::inbound::Arena;
use crate::memory::Memory;
use crate::packet_sizes::{
    CONTROL_PACKET_LEN_MAX, IPV4_BASE_PLPMTU, IPV4_HEADER_LEN, IPV4_REASSEMBLY_MIN, IPV6_MTU_MIN,
    UDP_HEADER_LEN,
};
use crate::path::{KnownPaths, Link, VerificationBudget};
use crate::receive_queue::ReceiveQueue;
use crate::stats::EndpointStats;
use crate::zone;

/// Maximum number of events kept for an application that does not poll. Beyond it, only events that a peer can cause
/// at will are dropped.
const EVENTS_SOFT_MAX: usize = 1 << 16;
/// Maximum number of bytes of an error cause that are kept for the application.
const CAUSE_LEN_MAX: usize = 256;
/// Maximum number of associations that may keep their buffers for all of `idle_release` after the last exchange.
const BUFFERS_KEPT: u32 = 1 << 12;
/// Fraction of the limit on received data by which data that releases held data may exceed it.
const RESERVE_DIVISOR: u64 = 8;

/// What the associations of an endpoint share. The parameter `cx` of their procedures.
#[derive(Debug)]
pub(crate) struct EndpointContext {
    pub(crate) config: EndpointConfig,
    pub(crate) rng: ChaCha8Rng,
    pub(crate) events: VecDeque<(AssociationId, Event)>,
    pub(crate) arena: Arena,
    pub(crate) cookies: CookieKeys,
    pub(crate) tie_key: (u64, u64),
    /// Shared keys of new associations (RFC 4895).
    pub(crate) keys: KeyRing,
    /// Packets of associations: INIT, heartbeats, errors, shutdown chunks.
    pub(crate) control: PacketQueue,
    /// Stateless answers, in their own queue so that a flood of them does not displace the packets of associations.
    pub(crate) replies: PacketQueue,
    pub(crate) stats: EndpointStats,
    /// Memory of all associations, and of endpoints that share the account.
    pub(crate) memory: Memory,
    /// The carrier's receive queue, which the windows of all associations share.
    pub(crate) receive_queue: ReceiveQueue,
    /// Path properties that ended associations have learnt.
    pub(crate) known: KnownPaths,
    pub(crate) host_addresses: HostAddresses,
    /// Addresses that the ASCONF chunks being processed name, and that another association with the same ports has.
    pub(crate) taken: Vec<IpAddr>,
    /// Budget for HEARTBEATs to unconfirmed addresses.
    pub(crate) verification: VerificationBudget,
    pub(crate) long_set_ups: LongSetUps,
}

/// The latest set-ups with an INIT or INIT ACK that not every path carries, by the Initiate Tag of the INIT.
/// Another one of the same set-up follows a time-out: the first may have been too long.
#[derive(Debug)]
pub(crate) struct LongSetUps([u32; LONG_SET_UPS]);

/// Number of set-ups remembered. One that is displaced by another begins anew.
const LONG_SET_UPS: usize = 64;

impl Default for LongSetUps {
    fn default() -> Self {
        Self([0; LONG_SET_UPS])
    }
}

impl LongSetUps {
    /// Records a packet of `len` bytes. Returns the maximum size to which IP may fragment it.
    pub(crate) fn cut_max(&mut self, destination: IpAddr, tag: VerificationTag, len: usize) -> u16 {
        let ipv4 = destination.to_canonical().is_ipv4();
        let known = self.0.get_mut(tag.0 as usize % LONG_SET_UPS);
        match known.filter(|_| ipv4 && len > IPV4_WHOLE_LEN_MAX) {
            Some(known) if *known == tag.0 => IPV4_REASSEMBLY_MIN,
            Some(known) => {
                *known = tag.0;
                u16::MAX
            }
            None => u16::MAX,
        }
    }
}

impl EndpointContext {
    pub(crate) fn event(&mut self, id: AssociationId, event: Event) {
        self.events.push_back((id, event));
    }

    /// True if an association with `held` received bytes may take more. All together stay within the limit. Once it
    /// is reached, associations that hold less than their share of half the limit still may: a few whose data is
    /// never read, or never complete, must not starve the others.
    #[inline]
    pub(crate) fn has_room(&self, held: u32) -> bool {
        self.memory.received_in_all() < self.config.receive_bytes_max || self.is_within_share(held)
    }

    /// True if data that releases held data may still be accepted although the shared limit is reached. A reserve
    /// beyond the limit is kept for it: otherwise an association with a gap would hold its data for as long as others
    /// hold theirs.
    #[cold]
    pub(crate) fn has_reserve(&self) -> bool {
        let limit = self.config.receive_bytes_max;
        self.memory.received_in_all() < limit.saturating_add(limit / RESERVE_DIVISOR)
    }

    #[cold]
    fn is_within_share(&self, held: u32) -> bool {
        let share = self.config.receive_bytes_max / 2 / u64::from(self.memory.associations_in_all().max(1));
        u64::from(held) < share
    }

    /// Returns how long an association keeps its buffers once the peer has everything. With more associations the
    /// time is shorter, so that a million that take turns do not all have buffers at once.
    #[inline]
    pub(crate) fn idle_release(&self, longest: Duration) -> Duration {
        let associations = self.memory.associations();
        if associations <= BUFFERS_KEPT {
            return longest;
        }
        longest / (associations / BUFFERS_KEPT)
    }

    /// Returns the link by which packets to an address leave.
    pub(crate) fn link_to(&self, address: IpAddr) -> Link {
        let mtu = self.config.link_mtu;
        // The addresses need no look-up where it makes no difference.
        let is_within = mtu.within_host != mtu.to_others && self.host_addresses.is_within_host(address);
        Link {
            overhead: self.config.encapsulation_overhead,
            mtu: if is_within { mtu.within_host } else { mtu.to_others },
        }
    }

    /// True if there is room for an event that a peer can cause as often as it likes.
    pub(crate) fn has_event_room(&self) -> bool {
        self.events.len() < EVENTS_SOFT_MAX
    }

    /// Queues the report of an error cause that does not end the association.
    pub(crate) fn peer_error(&mut self, id: AssociationId, raw: &RawCause<'_>) {
        if self.has_event_room() {
            let data = raw.value.get(..CAUSE_LEN_MAX).unwrap_or(raw.value);
            self.event(id, Event::PeerError { code: raw.code, data: Bytes::copy_from_slice(data) });
        }
    }

    /// Queues an event that a peer can cause as often as it likes.
    pub(crate) fn event_if_room(&mut self, id: AssociationId, event: Event) {
        if self.has_event_room() {
            self.events.push_back((id, event));
        }
    }

    /// Returns a random tag of this shard, never 0 (RFC 9260 section 5.3.1). The caller checks that it is free.
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

    /// Returns random bits for jitter.
    pub(crate) fn rng_word(&mut self) -> u32 {
        self.rng.next_u32()
    }

    /// Returns a nonce for a heartbeat, never 0.
    pub(crate) fn nonce(&mut self) -> u64 {
        self.rng.next_u64().max(1)
    }

    /// Returns a Random Number for the keys of an association (RFC 4895 section 3.1).
    pub(crate) fn random_number(&mut self) -> [u8; RANDOM_LEN] {
        let mut number = [0; RANDOM_LEN];
        self.rng.fill_bytes(&mut number);
        number
    }

    pub(crate) fn random_tsn(&mut self) -> Tsn {
        Tsn(self.rng.next_u32())
    }

    /// Returns the Tie-Tags (section 5.2.2), a keyed hash of the association's tags: random to everybody else, never
    /// 0, and not stored in any association.
    pub(crate) fn tie_tags(&self, local: VerificationTag, peer: VerificationTag) -> (u32, u32) {
        let hash = |tag: u32, side: u8| {
            let mut hasher = SipHasher13::new_with_keys(self.tie_key.0, self.tie_key.1);
            hasher.write_u32(tag);
            hasher.write_u8(side);
            (hasher.finish() as u32).max(1)
        };
        (hash(local.0, 0), hash(peer.0, 1))
    }

    /// Returns the local addresses of an association that has `own`, which are those of the endpoint if it has none.
    pub(crate) fn local_addresses<'a>(&'a self, own: &'a [IpAddr]) -> &'a [IpAddr] {
        if own.is_empty() { &self.config.local_addresses } else { own }
    }

    /// Returns the addresses to list to a peer at `peer`, for an association that has `own`: loopback only to
    /// loopback, link-local only to link-local on the same link, and none if there is only the source of the
    /// packet.
    pub(crate) fn local_addresses_for<'a>(
        &'a self,
        own: &'a [IpAddr],
        peer: IpAddr,
    ) -> impl Iterator<Item = IpAddr> + 'a {
        let all = self.local_addresses(own);
        let listed = if all.len() > 1 { all } else { &[] };
        let nameable =
            move |address: &IpAddr| scope(*address) >= scope(peer).min(2) && zone::on_link_of(*address, peer);
        listed.iter().copied().filter(nameable).map(zone::bare)
    }
}

/// Returns the scope of an address: 0 for loopback, 1 for link-local, 2 for wider.
fn scope(address: IpAddr) -> u8 {
    match address {
        a if a.is_loopback() => 0,
        IpAddr::V4(a) if a.is_link_local() => 1,
        IpAddr::V6(a) if (a.segments()[0] & 0xffc0) == 0xfe80 => 1,
        _ => 2,
    }
}

/// False if packets to or from the address are not unicast (section 8.4 rule 1).
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => !(a.is_unspecified() || a.is_multicast() || a.is_broadcast()),
        IpAddr::V6(a) => !(a.is_unspecified() || a.is_multicast() || a.to_ipv4_mapped().is_some()),
    }
}

/// True if a peer at `source` may list `address` as one of its own.
pub(crate) fn acceptable(address: IpAddr, source: IpAddr) -> bool {
    is_unicast(address) && scope(address) >= scope(source)
}

/// The destination and source of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) destination: SocketAddr,
    pub(crate) source: Option<IpAddr>,
}

#[derive(Debug)]
struct Queued {
    route: Route,
    bytes: Vec<u8>,
    /// Maximum size to which IP may fragment the packet; `None` if it must not, because it tests whether its length
    /// arrives.
    cut_max: Option<u16>,
}

impl Queued {
    /// Returns the size that IP fragments the packet to, or `None` if it need not be fragmented. Packets of control
    /// chunks may exceed what every path carries, and nothing would report their loss.
    fn fragment(&self) -> Option<u16> {
        let (floor, base) = if self.route.destination.ip().to_canonical().is_ipv4() {
            (IPV4_WHOLE_LEN_MAX, IPV4_BASE_PLPMTU)
        } else {
            (CONTROL_PACKET_LEN_MAX, IPV6_MTU_MIN)
        };
        self.cut_max.filter(|_| self.bytes.len() > floor).map(|most| most.min(base))
    }
}

/// The next packets of a queue: their route, total length, size of each, and the size that IP fragments them to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Popped {
    pub(crate) route: Route,
    pub(crate) len: usize,
    pub(crate) segment_size: usize,
    pub(crate) fragment: Option<u16>,
}

/// A bounded queue of built packets whose buffers are reused.
#[derive(Debug)]
pub(crate) struct PacketQueue {
    packets: VecDeque<Queued>,
    spare: Vec<Vec<u8>>,
    limit: usize,
    /// Total bytes of `packets`.
    bytes: usize,
    /// Number of packets dropped because the queue was full.
    pub(crate) dropped: u64,
}

/// Maximum number of bytes in one queue: answers to HEARTBEATs may be as long as these.
const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Maximum length in bytes of an SCTP packet that every IPv4 host reassembles.
const IPV4_WHOLE_LEN_MAX: usize = (IPV4_REASSEMBLY_MIN - IPV4_HEADER_LEN - UDP_HEADER_LEN) as usize;

/// Maximum number of spare buffers; each may have the size of a path MTU probe.
const SPARES_MAX: usize = 64;

impl PacketQueue {
    pub(crate) fn new(limit: usize) -> Self {
        Self { packets: VecDeque::new(), spare: Vec::new(), limit, bytes: 0, dropped: 0 }
    }

    /// Lets `build` write a packet of at most `size` bytes. It returns the packet's length, or 0 for no packet.
    pub(crate) fn push(&mut self, route: Route, size: usize, build: impl FnOnce(&mut [u8]) -> usize) {
        self.push_with(route, size, Some(u16::MAX), build);
    }

    /// As [`push`](Self::push). If the packet is long, IP fragments it to `cut_max` bytes at most.
    pub(crate) fn push_cut(
        &mut self,
        route: Route,
        size: usize,
        cut_max: u16,
        build: impl FnOnce(&mut [u8]) -> usize,
    ) {
        self.push_with(route, size, Some(cut_max), build);
    }

    /// As [`push`](Self::push), for a packet that must not be fragmented.
    pub(crate) fn push_whole(&mut self, route: Route, size: usize, build: impl FnOnce(&mut [u8]) -> usize) {
        self.push_with(route, size, None, build);
    }

    fn push_with(
        &mut self,
        route: Route,
        size: usize,
        cut_max: Option<u16>,
        build: impl FnOnce(&mut [u8]) -> usize,
    ) {
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
            self.packets.push_back(Queued { route, bytes: buffer, cut_max });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// True if the next packet would be dropped.
    pub(crate) fn is_full(&self) -> bool {
        self.packets.len() >= self.limit || self.bytes >= QUEUE_BYTES_MAX
    }

    /// Copies the oldest packets with the same route and size to `out`. Packets larger than
    /// `CONTROL_PACKET_LEN_MAX`, which may exceed the path MTU, are returned alone, as are those that IP
    /// fragments.
    pub(crate) fn pop_burst(&mut self, out: &mut [u8], segments_max: usize) -> Option<Popped> {
        let (route, size, fragment) = self.pop_into(out)?;
        let (mut len, mut count) = (size, 1);
        while count < segments_max && size <= CONTROL_PACKET_LEN_MAX && fragment.is_none() {
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
