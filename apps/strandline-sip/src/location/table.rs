//! All users that are registered, in memory: what every look-up reads, and what a store writes down.

use core::cell::Cell;
use core::hash::Hasher;
use std::collections::HashMap;

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

use super::binding::{Binding, FlowUse};
use super::text::Text;
use crate::transaction::{Numbers, Slots};

/// Changes that a store has to write down, one after the other: length and text of an address of record, length and text of
/// its bindings, of which there may be none.
#[derive(Debug, Default, Clone)]
pub struct Journal {
    bytes: Vec<u8>,
    changes: usize,
    /// Nobody will write it down.
    off: bool,
}

impl Journal {
    /// One that takes nothing, where there is no store.
    #[must_use]
    pub const fn off() -> Self {
        Self { bytes: Vec::new(), changes: 0, off: true }
    }

    /// Nothing changed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.changes == 0
    }

    /// How many changes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.changes
    }

    /// All changes as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes = 0;
    }

    /// Adds what another has.
    pub fn append(&mut self, other: &Self) {
        self.bytes.extend_from_slice(&other.bytes);
        self.changes += other.changes;
    }

    /// Notes the bindings that a user has now.
    pub fn record(&mut self, aor: &[u8], bindings: &[Binding]) {
        if self.off {
            return;
        }
        self.bytes.extend_from_slice(&(aor.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(aor);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        for binding in bindings {
            binding.write(&mut self.bytes);
        }
        let len = (self.bytes.len() - at - 4) as u32;
        if let Some(place) = self.bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&len.to_le_bytes());
        }
        self.changes += 1;
    }

    /// Address of record and bindings of each change in `bytes`. Ends at the first thing that is none.
    pub fn read(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = bytes;
        let mut take = move || {
            let len = u32::from_le_bytes(*rest.first_chunk()?) as usize;
            let text = rest.get(4..4 + len)?;
            rest = rest.get(4 + len..)?;
            Some(text)
        };
        core::iter::from_fn(move || Some((take()?, take()?)))
    }
}

#[derive(Debug)]
struct Entry {
    aor: Text,
    bindings: Vec<Binding>,
}

/// Users and their bindings. Every step is one look-up, whatever their number.
#[derive(Debug)]
pub struct Locations {
    table: HashTable<u32>,
    entries: Slots<Entry>,
    hasher: SipHasher13,
    /// Users with bindings that go with a connection.
    by_connection: HashMap<u64, Vec<u32>, Numbers>,
    /// Who was found last.
    found: Cell<u32>,
    /// Where the search for expired bindings goes on.
    swept: u32,
}

impl Locations {
    /// Nobody is registered. At most `users_max` can be; `seed` must be random.
    #[must_use]
    pub fn new(users_max: usize, seed: [u8; 16]) -> Self {
        Self {
            table: HashTable::new(),
            entries: Slots::new(users_max.min(1 << 30)),
            hasher: SipHasher13::new_with_key(&seed),
            by_connection: HashMap::default(),
            found: Cell::new(0),
            swept: 0,
        }
    }

    /// How many users are registered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Nobody is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn hash(&self, aor: &[u8]) -> u64 {
        let mut hasher = self.hasher;
        hasher.write(aor);
        hasher.finish()
    }

    fn find(&self, aor: &[u8]) -> Option<u32> {
        let same = |slot: &u32| self.entries.get(*slot).is_some_and(|entry| *entry.aor == *aor);
        // One request looks for its user several times.
        let last = self.found.get();
        if same(&last) {
            return Some(last);
        }
        let found = self.table.find(self.hash(aor), same).copied()?;
        self.found.set(found);
        Some(found)
    }

    /// The bindings of a user, expired ones too.
    #[must_use]
    pub fn bindings(&self, aor: &[u8]) -> &[Binding] {
        let entry = self.find(aor).and_then(|slot| self.entries.get(slot));
        entry.map_or(&[], |entry| &entry.bindings)
    }

    /// Changes the bindings of a user and notes that in the journal. Returns what `change` does, or `None` if there are too
    /// many users. A user without bindings is forgotten.
    pub fn change<R>(
        &mut self,
        aor: &[u8],
        journal: &mut Journal,
        change: impl FnOnce(&mut Vec<Binding>) -> R,
    ) -> Option<R> {
        let slot = match self.find(aor) {
            Some(slot) => slot,
            None => self.insert(aor)?,
        };
        let entry = self.entries.get_mut(slot)?;
        let result = change(&mut entry.bindings);
        journal.record(aor, &entry.bindings);
        self.settle(slot);
        Some(result)
    }

    /// Takes what a store has kept.
    pub fn load(&mut self, aor: &[u8], state: &[u8]) -> Option<()> {
        let lines = state.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let bindings: Vec<Binding> = lines.filter_map(Binding::read).collect();
        let slot = match self.find(aor) {
            Some(slot) => slot,
            None if bindings.is_empty() => return Some(()),
            None => self.insert(aor)?,
        };
        self.entries.get_mut(slot)?.bindings = bindings;
        self.settle(slot);
        Some(())
    }

    fn insert(&mut self, aor: &[u8]) -> Option<u32> {
        let hash = self.hash(aor);
        let slot = self.entries.insert(Entry { aor: aor.into(), bindings: Vec::new() })?;
        let (entries, hasher) = (&self.entries, self.hasher);
        let rehash = |slot: &u32| {
            let mut hasher = hasher;
            hasher.write(entries.get(*slot).map_or(&[], |entry| &entry.aor));
            hasher.finish()
        };
        self.table.insert_unique(hash, slot, rehash);
        Some(slot)
    }

    /// After a change: notes connections, and forgets who has no binding.
    fn settle(&mut self, slot: u32) {
        let Some(entry) = self.entries.get(slot) else { return };
        if entry.bindings.is_empty() {
            let hash = self.hash(&entry.aor);
            if let Ok(found) = self.table.find_entry(hash, |other| *other == slot) {
                found.remove();
            }
            self.entries.remove(slot);
            return;
        }
        for binding in &entry.bindings {
            if binding.flow_use == FlowUse::Only && binding.flow.connection != 0 {
                let users = self.by_connection.entry(binding.flow.connection).or_default();
                if users.last() != Some(&slot) && !users.contains(&slot) {
                    users.push(slot);
                }
            }
        }
    }

    /// A connection is gone, and the bindings that live by it go with it. Returns how many.
    pub fn connection_closed(&mut self, connection: u64, journal: &mut Journal) -> usize {
        let mut gone = 0;
        for slot in self.by_connection.remove(&connection).unwrap_or_default() {
            gone += self.retain(slot, journal, |binding| {
                binding.flow_use != FlowUse::Only || binding.flow.connection != connection
            });
        }
        gone
    }

    /// Users whose addresses begin with `prefix`: up to `most` of those in `count` places from `from` on, and the place after
    /// the last one looked at; `None` if there are no more.
    #[must_use]
    pub fn page(
        &self,
        from: u32,
        count: u32,
        most: usize,
        prefix: &[u8],
    ) -> (Vec<(&[u8], &[Binding])>, Option<u32>) {
        let mut found = Vec::new();
        let places = self.entries.places();
        let end = places.min(from.saturating_add(count));
        for slot in from..end {
            if let Some(entry) = self.entries.get(slot).filter(|entry| entry.aor.starts_with(prefix)) {
                found.push((&*entry.aor, entry.bindings.as_slice()));
                if found.len() == most {
                    return (found, Some(slot + 1).filter(|next| *next < places));
                }
            }
        }
        (found, Some(end).filter(|end| *end < places))
    }

    /// Looks at up to `count` places for bindings that have expired, and forgets them. Returns how many.
    pub fn sweep(&mut self, count: u32, unix_secs: u64, journal: &mut Journal) -> usize {
        let places = self.entries.places();
        let mut gone = 0;
        for _ in 0..count.min(places) {
            self.swept = if self.swept + 1 < places { self.swept + 1 } else { 0 };
            gone += self.retain(self.swept, journal, |binding| !binding.has_expired(unix_secs));
        }
        gone
    }

    fn retain(&mut self, slot: u32, journal: &mut Journal, keep: impl Fn(&Binding) -> bool) -> usize {
        let Some(entry) = self.entries.get_mut(slot) else { return 0 };
        let before = entry.bindings.len();
        entry.bindings.retain(keep);
        let gone = before - entry.bindings.len();
        if gone > 0 {
            journal.record(&entry.aor, &entry.bindings);
            self.settle(slot);
        }
        gone
    }
}
