//! Users by the sources of their datagrams: whether anybody else is reached at a source that a phone has
//! left.

use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

use super::binding::{Binding, FlowUse};
use crate::transaction::Protocol;

/// Users that are noted for a source. A source with so many is taken to be in use.
const USERS_MAX: usize = 32;

/// The source of datagrams that a binding lives by, at this node or another.
pub(super) fn source_of(binding: &Binding) -> Option<SocketAddr> {
    let lives_by_it = matches!(binding.flow_use, FlowUse::First | FlowUse::Only);
    let is_source = binding.flow.protocol == Protocol::Udp && binding.flow.connection == 0;
    (lives_by_it && is_source).then_some(binding.flow.peer)
}

/// A user who has, or had, a binding with a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Note {
    /// Of the source.
    hash: u32,
    slot: u32,
}

impl Note {
    /// Spreads the bits that there are: the table looks at the highest and the lowest.
    fn key(&self) -> u64 {
        u64::from(self.hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Sources, and the users at them. Notes of users who have left are removed when the table is full.
#[derive(Debug)]
pub(super) struct Sources {
    notes: HashTable<Note>,
    hasher: SipHasher13,
}

impl Sources {
    pub(super) fn new(hasher: SipHasher13) -> Self {
        Self { notes: HashTable::new(), hasher }
    }

    /// How many notes there are, also of users who have left.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.notes.len()
    }

    fn hash(&self, source: SocketAddr) -> u32 {
        let mut hasher = self.hasher;
        match source.ip() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        hasher.write_u16(source.port());
        hasher.finish() as u32
    }

    fn notes_of(&self, hash: u32) -> impl Iterator<Item = u32> {
        let same = self.notes.iter_hash(Note { hash, slot: 0 }.key()).filter(move |note| note.hash == hash);
        same.map(|note| note.slot).take(USERS_MAX)
    }

    /// Records a user's source. `bindings_of` returns the bindings of the user in a slot.
    pub(super) fn note<'a>(
        &mut self,
        slot: u32,
        source: SocketAddr,
        bindings_of: impl Fn(u32) -> &'a [Binding],
    ) {
        let hash = self.hash(source);
        let mut count = 0;
        if self.notes_of(hash).inspect(|_| count += 1).any(|noted| noted == slot) || count == USERS_MAX {
            return;
        }
        if self.notes.len() == self.notes.capacity() {
            let hasher = Self { notes: HashTable::new(), hasher: self.hasher };
            self.notes.retain(|note| {
                let mut sources = bindings_of(note.slot).iter().filter_map(source_of);
                sources.any(|source| hasher.hash(source) == note.hash)
            });
            if self.notes.len() > self.notes.capacity() / 2 {
                self.notes.reserve(self.notes.len(), Note::key);
            }
        }
        let note = Note { hash, slot };
        self.notes.insert_unique(note.key(), note, Note::key);
    }

    /// Whether a user is reached at a source.
    pub(super) fn reaches<'a>(&self, source: SocketAddr, bindings_of: impl Fn(u32) -> &'a [Binding]) -> bool {
        let mut count = 0;
        let mut users = self.notes_of(self.hash(source)).inspect(|_| count += 1);
        let found =
            users.any(|slot| bindings_of(slot).iter().any(|binding| source_of(binding) == Some(source)));
        drop(users);
        found || count == USERS_MAX
    }
}
