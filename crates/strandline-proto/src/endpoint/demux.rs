//! Look-up of the association that a packet belongs to, in O(1). Tags are our own choice; the address and ports are
//! the peer's choice and are therefore hashed with a key.

use core::hash::Hasher;
use core::net::IpAddr;

use siphasher::sip::SipHasher13;
use strandline_wire::Packet;
use strandline_wire::number::VerificationTag;

use super::linear_hash::{LinearHashTable, hash_tag};
use crate::event::Datagram;
use crate::path_index::PathIndex;

/// The identity of an association besides its tag: one of the peer's addresses and both ports (RFC 9260 section 1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerKey {
    pub(super) address: IpAddr,
    pub(super) peer_port: u16,
    pub(super) local_port: u16,
}

impl PeerKey {
    /// Returns the key of a received packet.
    pub(super) fn of(packet: &Packet<'_>, datagram: &Datagram<'_>) -> Self {
        Self {
            address: datagram.source.ip(),
            peer_port: packet.source_port(),
            local_port: packet.destination_port(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct TagEntry {
    tag: u32,
    slot: u32,
}

/// The look-up tables. The address table stores only slots and reads the key from the association, so an entry costs
/// 4 bytes and its control byte.
#[derive(Debug)]
pub(super) struct Demux {
    tags: LinearHashTable<TagEntry>,
    peers: LinearHashTable<u32>,
    keys: (u64, u64),
}

impl Demux {
    pub(super) fn new(keys: (u64, u64)) -> Self {
        Self { tags: LinearHashTable::new(), peers: LinearHashTable::new(), keys }
    }

    fn hash_peer(keys: (u64, u64), key: &PeerKey) -> u64 {
        let ports = u32::from(key.peer_port) << 16 | u32::from(key.local_port);
        let mut hasher = SipHasher13::new_with_keys(keys.0, keys.1);
        // Hashing whole words is cheaper than hashing each field. The lengths differ by family, and the hash includes
        // the length.
        match key.address {
            IpAddr::V4(address) => hasher.write_u64(u64::from(address.to_bits()) << 32 | u64::from(ports)),
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                hasher.write_u64((bits >> 64) as u64);
                hasher.write_u64(bits as u64);
                hasher.write_u32(ports);
            }
        }
        hasher.finish()
    }

    pub(super) fn by_tag(&self, tag: VerificationTag) -> Option<u32> {
        self.tags.find(hash_tag(tag.0), |entry| entry.tag == tag.0).map(|entry| entry.slot)
    }

    pub(super) fn insert_tag(&mut self, tag: VerificationTag, slot: u32) {
        let hasher = |entry: &TagEntry| hash_tag(entry.tag);
        self.tags.insert_unique(hash_tag(tag.0), TagEntry { tag: tag.0, slot }, hasher);
    }

    pub(super) fn remove_tag(&mut self, tag: VerificationTag) {
        self.tags.remove(hash_tag(tag.0), |entry| entry.tag == tag.0);
    }

    /// Returns the slot for a key. `matches` returns whether the association in a slot has the key.
    pub(super) fn by_peer(&self, key: &PeerKey, matches: impl Fn(u32) -> bool) -> Option<u32> {
        self.peers.find(Self::hash_peer(self.keys, key), |slot| matches(*slot)).copied()
    }

    /// Adds an entry. `rehash` returns the key of an entry when the table grows. An association with several
    /// addresses has an entry for each, distinguished by a number in the top bits of the slot.
    pub(super) fn insert_peer(&mut self, key: &PeerKey, slot: u32, rehash: impl Fn(u32) -> PeerKey) {
        let keys = self.keys;
        let hasher = |slot: &u32| Self::hash_peer(keys, &rehash(*slot));
        self.peers.insert_unique(Self::hash_peer(keys, key), slot, hasher);
    }

    pub(super) fn remove_peer(&mut self, key: &PeerKey, entry: u32) {
        self.peers.remove(Self::hash_peer(self.keys, key), |slot| *slot == entry);
    }

    /// Returns the current bytes of both tables per association with one address.
    pub(super) fn bytes_per_association(&self, associations: usize) -> usize {
        (self.tags.heap_bytes() + self.peers.heap_bytes()).div_ceil(associations.max(1))
    }
}

/// Position of the path's number within an entry of the address table; the slot is below it.
pub(super) const PATH_SHIFT: u32 = 28;
const SLOT_MASK: u32 = (1 << PATH_SHIFT) - 1;

pub(super) fn entry_of(slot: u32, path: PathIndex) -> u32 {
    (u32::from(path.number()) << PATH_SHIFT) | slot
}

pub(super) fn slot_of(entry: u32) -> u32 {
    entry & SLOT_MASK
}

pub(super) fn path_of(entry: u32) -> Option<PathIndex> {
    PathIndex::new((entry >> PATH_SHIFT) as usize)
}
