//! Cookies whose association has ended, or has left the peer's address that they know. A State Cookie stays valid for
//! its whole lifetime, so a COOKIE ECHO that the network repeats after the end of the association would create a second
//! one and deliver its bundled DATA again.
//!
//! Two things identify such a cookie: our tag, which is never reused, and the peer's INIT. When the INITs of both sides
//! meet (RFC 9260 section 5.2), the peer sends a second COOKIE ECHO with a tag of ours that no association ever had.

use core::hash::Hasher;
use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;
use strandline_wire::number::VerificationTag;

use super::linear_hash::hash_tag;
use crate::association::Association;
use crate::time::Time;

/// Maximum number of remembered tags and INITs, of about 32 bytes each. Beyond it the oldest are forgotten early.
const USED_MAX: usize = 1 << 17;

/// Distinguish INITs from tags, those of associations that have ended from those that have left an address.
const INIT: u64 = 1 << 63;
const LEFT: u64 = 1 << 62;

/// The INIT that a peer sent for an association.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerInit {
    pub(super) tag: VerificationTag,
    pub(super) address: IpAddr,
    pub(super) peer_port: u16,
    pub(super) local_port: u16,
}

impl PeerInit {
    /// Returns the INIT of an association's peer once for each of its addresses: it may have come from any of them.
    /// There is none as long as the peer's tag is unknown.
    pub(super) fn all_of(association: &Association) -> impl Iterator<Item = Self> + '_ {
        let paths = association.paths.iter().filter(|_| association.peer_tag.0 != 0);
        paths.map(|(_, path)| Self::from(association, path.remote.ip()))
    }

    /// As [`all_of`](Self::all_of), for the addresses that the peer had at its set-up.
    pub(super) fn of_set_up(association: &Association) -> impl Iterator<Item = Self> + '_ {
        let paths = association.paths.iter().filter(|_| association.peer_tag.0 != 0);
        let paths = paths.filter(|(index, _)| !association.flags().added.contains(*index));
        paths.map(|(_, path)| Self::from(association, path.remote.ip()))
    }

    fn from(association: &Association, address: IpAddr) -> Self {
        let Association { peer_tag: tag, peer_port, local_port, .. } = *association;
        Self { tag, address, peer_port, local_port }
    }
}

#[derive(Debug)]
pub(super) struct UsedCookies {
    known: HashTable<u64>,
    /// What is known with its expiry, oldest first.
    order: VecDeque<(Time, u64)>,
    /// How long a cookie is valid at most.
    lifetime: Duration,
    /// Keys of the hash of an INIT.
    keys: (u64, u64),
    /// Number of INITs of associations that have left an address.
    left: usize,
}

impl UsedCookies {
    /// Creates an empty list for cookies that are valid for at most `lifetime`. `keys` are those of a hash.
    pub(super) fn new(lifetime: Duration, keys: (u64, u64)) -> Self {
        Self { known: HashTable::new(), order: VecDeque::new(), lifetime, keys, left: 0 }
    }

    /// Records that an association has ended.
    #[cold]
    pub(super) fn insert_ended(&mut self, now: Time, association: &Association) {
        self.insert_tag(now, association.local_tag);
        for init in PeerInit::all_of(association) {
            self.insert_init(now, &init);
        }
    }

    /// Records that the association with our tag has ended.
    pub(super) fn insert_tag(&mut self, now: Time, tag: VerificationTag) {
        self.insert(now, u64::from(tag.0));
    }

    /// Records that the association of a peer's INIT has ended.
    pub(super) fn insert_init(&mut self, now: Time, init: &PeerInit) {
        self.insert(now, self.id_of(init));
    }

    /// Records the addresses of the peer that an association has no more: it had one for each of these INITs.
    pub(super) fn insert_left(&mut self, now: Time, before: &[PeerInit], association: &Association) {
        // A restart of the peer has another tag.
        let is_left = |init: &&PeerInit| {
            init.tag == association.peer_tag && association.paths.by_address(init.address).is_none()
        };
        for init in before.iter().filter(is_left) {
            self.insert(now, self.id_of(init) | LEFT);
        }
    }

    pub(super) fn has_tag(&self, tag: VerificationTag) -> bool {
        self.contains(u64::from(tag.0))
    }

    pub(super) fn has_init(&self, init: &PeerInit) -> bool {
        self.contains(self.id_of(init))
    }

    /// True if the association of the peer's INIT has no longer the address that the INIT came from. As far as is known
    /// it has not ended.
    pub(super) fn has_left(&self, init: &PeerInit) -> bool {
        self.left > 0 && self.contains(self.id_of(init) | LEFT) && !self.has_init(init)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    #[inline(never)]
    fn insert(&mut self, now: Time, id: u64) {
        self.forget_expired(now);
        if self.order.len() >= USED_MAX {
            self.forget_oldest();
        }
        if !self.contains(id) {
            self.known.insert_unique(hash(id), id, |known| hash(*known));
            self.order.push_back((now + self.lifetime, id));
            self.left += usize::from(is_left(id));
        }
    }

    /// Forgets what was recorded too long ago.
    #[inline]
    pub(super) fn forget_expired(&mut self, now: Time) {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_oldest();
        }
    }

    #[cold]
    fn forget_oldest(&mut self) {
        let Some((_, oldest)) = self.order.pop_front() else { return };
        self.left -= usize::from(is_left(oldest));
        if let Ok(entry) = self.known.find_entry(hash(oldest), |known| *known == oldest) {
            entry.remove();
        }
    }

    fn contains(&self, id: u64) -> bool {
        self.known.find(hash(id), |known| *known == id).is_some()
    }

    #[inline(never)]
    fn id_of(&self, init: &PeerInit) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        hasher.write_u32(init.tag.0);
        hasher.write_u16(init.peer_port);
        hasher.write_u16(init.local_port);
        match init.address.to_canonical() {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
        (hasher.finish() & !LEFT) | INIT
    }
}

fn is_left(id: u64) -> bool {
    id & (INIT | LEFT) == INIT | LEFT
}

fn hash(id: u64) -> u64 {
    hash_tag((id ^ (id >> 32)) as u32)
}

#[cfg(test)]
mod tests;
