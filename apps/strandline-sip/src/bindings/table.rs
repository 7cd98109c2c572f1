//! All registered users, in memory. Every lookup reads this table, and its changes go to the store.

use core::cell::Cell;
use core::hash::Hasher;
use core::net::SocketAddr;
use std::collections::HashMap;

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

use super::binding::{Binding, FlowUse};
use super::instance::Gruus;
use super::journal::{Journal, lines};
use super::nodes::Nodes;
use super::sources::{Sources, source_of};
use super::text::Text;
use crate::transaction::{Numbers, Slots};

#[derive(Debug)]
struct Entry {
    aor: Text,
    bindings: Vec<Binding>,
}

/// Users and their bindings. Every operation takes constant time, whatever the number of users.
#[derive(Debug)]
pub struct Locations {
    table: HashTable<u32>,
    entries: Slots<Entry>,
    /// Number of bindings of all users.
    bindings: usize,
    hasher: SipHasher13,
    /// Users whose bindings depend on a connection.
    by_connection: HashMap<u64, Vec<u32>, Numbers>,
    /// Users with bindings that live by a source of datagrams.
    by_source: Sources,
    /// Users with temporary GRUUs.
    gruus: Gruus,
    /// The slot found by the last lookup.
    found: Cell<u32>,
    /// The slot at which the sweep for expired bindings continues.
    swept: u32,
    /// The other nodes; `None` if the server has none.
    nodes: Option<Nodes>,
    /// Users with bindings whose connections ended with the previous run, to be announced to the other nodes.
    unannounced: Vec<u32>,
}

/// Records the state of a user.
fn record(journal: &mut Journal, nodes: Option<&Nodes>, aor: &[u8], bindings: &[Binding]) {
    match nodes {
        None => journal.record(aor, bindings),
        Some(nodes) => journal.record_with(aor, |out| nodes.write(aor, bindings, out)),
    }
}

/// For a user with a single binding and no GRUU: the connection and the source of datagrams to index, if any.
/// `None` for all other users. Most users have one binding, and a refresh leaves this unchanged.
fn only_flow(bindings: &[Binding]) -> Option<(Option<u64>, Option<SocketAddr>)> {
    match bindings {
        [binding] if binding.gruu == 0 => Some((connection_of(binding), source_of(binding))),
        _ => None,
    }
}

/// Up to this number of users, the list of a connection has no duplicates.
const FEW: usize = 32;

/// Adds a user to the list of a connection. All users of a network may share one connection, so a long list
/// is searched for duplicates only when it is full.
fn note_user(users: &mut Vec<u32>, slot: u32) {
    if users.last() == Some(&slot) || users.len() <= FEW && users.contains(&slot) {
        return;
    }
    if users.len() > FEW && users.len() == users.capacity() {
        users.sort_unstable();
        users.dedup();
        if users.len() > users.capacity() / 2 {
            users.reserve(users.len());
        }
    }
    users.push(slot);
}

fn bindings_in(entries: &Slots<Entry>, slot: u32) -> &[Binding] {
    entries.get(slot).map_or(&[], |entry| &entry.bindings)
}

/// The connection of this node on which a binding depends.
fn connection_of(binding: &Binding) -> Option<u64> {
    let needs = binding.flow_use != FlowUse::None && binding.origin.is_none();
    Some(binding.flow.connection).filter(|connection| needs && *connection != 0)
}

impl Locations {
    /// Creates an empty table for at most `users_max` users. `seed` must be random.
    #[must_use]
    pub fn new(users_max: usize, seed: [u8; 16]) -> Self {
        Self {
            table: HashTable::new(),
            entries: Slots::new(users_max.min(1 << 30)),
            bindings: 0,
            hasher: SipHasher13::new_with_key(&seed),
            by_connection: HashMap::default(),
            by_source: Sources::new(SipHasher13::new_with_key(&seed)),
            gruus: Gruus::default(),
            found: Cell::new(0),
            swept: 0,
            nodes: None,
            unannounced: Vec::new(),
        }
    }

    /// Enables merging with other nodes.
    pub fn share(&mut self, nodes: Nodes) {
        self.nodes = Some(nodes);
    }

    /// The number of a node; 0 for this node.
    pub fn node(&mut self, name: &str) -> u16 {
        self.nodes.as_mut().map_or(0, |nodes| nodes.number(name))
    }

    /// The number of registered users.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number of bindings, including expired ones that were not swept yet.
    #[must_use]
    pub const fn bindings_len(&self) -> usize {
        self.bindings
    }

    /// Returns true if no user is registered.
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
        // One request looks up its user several times.
        let last = self.found.get();
        if same(&last) {
            return Some(last);
        }
        let found = self.table.find(self.hash(aor), same).copied()?;
        self.found.set(found);
        Some(found)
    }

    /// The bindings of a user, including expired ones.
    #[must_use]
    pub fn bindings(&self, aor: &[u8]) -> &[Binding] {
        let entry = self.find(aor).and_then(|slot| self.entries.get(slot));
        entry.map_or(&[], |entry| &entry.bindings)
    }

    /// The user with an instance whose temporary GRUUs contain this number, and the user's bindings.
    #[must_use]
    pub fn with_gruu(&self, gruu: u64) -> Option<(&[u8], &[Binding])> {
        let entry = self.entries.get(self.gruus.find(gruu)?)?;
        Some((&entry.aor, &entry.bindings))
    }

    /// Changes the bindings of a user and records the change in the journal. Returns the result of `change`,
    /// or `None` if there are too many users. A user without bindings is removed. `unix_ms`, the time since
    /// 1970-01-01 in milliseconds, orders the change among those of other nodes.
    pub fn change<R>(
        &mut self,
        aor: &[u8],
        unix_ms: u64,
        journal: &mut Journal,
        change: impl FnOnce(&mut Vec<Binding>) -> R,
    ) -> Option<R> {
        let slot = match self.find(aor) {
            Some(slot) => slot,
            None => self.insert(aor)?,
        };
        let entry = self.entries.get_mut(slot)?;
        let (gruus, only) = (Gruus::of(&entry.bindings), only_flow(&entry.bindings));
        let count = entry.bindings.len();
        let result = match &mut self.nodes {
            None => change(&mut entry.bindings),
            Some(nodes) => {
                let before = Nodes::before_change(&entry.bindings);
                let result = change(&mut entry.bindings);
                nodes.after_change(aor, unix_ms, before, &mut entry.bindings);
                result
            }
        };
        self.bindings = self.bindings + entry.bindings.len() - count;
        record(journal, self.nodes.as_ref(), aor, &entry.bindings);
        let is_noted = only.is_some() && only == only_flow(&entry.bindings);
        if !is_noted {
            self.settle(slot, &gruus);
        }
        Some(result)
    }

    /// Replaces the bindings that a user has at another node. Records a change in the journal if it affects
    /// what this node stores. Returns the number of skipped, unreadable lines, or `None` if there are too
    /// many users or other nodes are not enabled.
    pub fn merge(&mut self, node: u16, aor: &[u8], state: &[u8], journal: &mut Journal) -> Option<usize> {
        let state = self.nodes.as_mut()?.read(node, state);
        let unreadable = state.unreadable;
        let found = self.find(aor);
        let slot = match found {
            Some(slot) => Some(slot),
            None if state.bindings.is_empty() => None,
            None => Some(self.insert(aor)?),
        };
        let nodes = self.nodes.as_mut()?;
        let Some(slot) = slot else {
            if nodes.merge(node, aor, state, &mut Vec::new()) {
                record(journal, Some(nodes), aor, &[]);
            }
            return Some(unreadable);
        };
        let entry = self.entries.get_mut(slot)?;
        let (gruus, count) = (Gruus::of(&entry.bindings), entry.bindings.len());
        if nodes.merge(node, aor, state, &mut entry.bindings) {
            record(journal, Some(nodes), aor, &entry.bindings);
        }
        self.bindings = self.bindings + entry.bindings.len() - count;
        self.settle(slot, &gruus);
        Some(unreadable)
    }

    /// Removes all state of a node, before it is sent anew.
    pub fn forget_node(&mut self, node: u16) {
        if let Some(nodes) = &mut self.nodes {
            nodes.forget(node);
        }
        for slot in 0..self.entries.places() {
            let Some(entry) = self.entries.get_mut(slot) else { continue };
            let (before, gruus) = (entry.bindings.len(), Gruus::of(&entry.bindings));
            entry.bindings.retain(|binding| binding.node() != node);
            self.bindings -= before - entry.bindings.len();
            if entry.bindings.len() < before {
                self.settle(slot, &gruus);
            }
        }
    }

    /// Loads the stored state of a user. Returns the number of skipped, unreadable lines, or `None` if there
    /// are too many users.
    pub fn load(&mut self, aor: &[u8], state: &[u8]) -> Option<usize> {
        let (lines, is_whole) = lines(state);
        let mut unreadable = usize::from(!is_whole);
        let mut bindings = Vec::new();
        for line in lines {
            match Binding::read(line) {
                Some(binding) => bindings.push(binding),
                None => unreadable += 1,
            }
        }
        let slot = match self.find(aor) {
            Some(slot) => slot,
            None if bindings.is_empty() => return Some(unreadable),
            None => self.insert(aor)?,
        };
        let count = bindings.len();
        let before = core::mem::replace(&mut self.entries.get_mut(slot)?.bindings, bindings);
        self.bindings = self.bindings + count - before.len();
        self.settle(slot, &Gruus::of(&before));
        Some(unreadable)
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

    /// Completes a change: updates the indexes of connections and GRUUs (which held `before`), and removes a
    /// user without bindings.
    fn settle(&mut self, slot: u32, before: &[u64]) {
        let Some(entry) = self.entries.get(slot) else { return };
        self.gruus.update(slot, before, &entry.bindings);
        if entry.bindings.is_empty() {
            let hash = self.hash(&entry.aor);
            if let Ok(found) = self.table.find_entry(hash, |other| *other == slot) {
                found.remove();
            }
            self.entries.remove(slot);
            return;
        }
        for connection in entry.bindings.iter().filter_map(connection_of) {
            note_user(self.by_connection.entry(connection).or_default(), slot);
        }
        for source in entry.bindings.iter().filter_map(source_of) {
            self.by_source.note(slot, source, |slot| bindings_in(&self.entries, slot));
        }
    }

    /// Returns true if some binding may use this connection. The index may be out of date.
    #[must_use]
    pub fn uses(&self, connection: u64) -> bool {
        self.by_connection.contains_key(&connection)
    }

    /// Whether a binding lives by this source of datagrams. With very many users one is taken to.
    #[must_use]
    pub fn reaches_at(&self, source: SocketAddr) -> bool {
        self.by_source.reaches(source, |slot| bindings_in(&self.entries, slot))
    }

    /// Returns true if a binding of this node depends on this connection. With very many users it is assumed
    /// without a check.
    #[must_use]
    pub fn reaches_over(&self, connection: u64) -> bool {
        let users = self.by_connection.get(&connection).map_or(&[][..], Vec::as_slice);
        let needs = |slot: &u32| {
            let mut bindings = bindings_in(&self.entries, *slot).iter();
            bindings.any(|binding| connection_of(binding) == Some(connection))
        };
        users.len() > FEW || users.iter().any(needs)
    }

    /// The bindings of this node that depend on a connection, with their users.
    pub fn reached_over(&self, connection: u64) -> impl Iterator<Item = (&[u8], &Binding)> {
        let users = self.by_connection.get(&connection).map_or(&[][..], Vec::as_slice);
        let entries = users.iter().filter_map(|slot| self.entries.get(*slot));
        let all = entries.flat_map(|entry| entry.bindings.iter().map(|binding| (&*entry.aor, binding)));
        all.filter(move |(_, binding)| connection_of(binding) == Some(connection))
    }

    /// Removes the bindings that depend on a closed connection, and marks those that prefer it for other
    /// nodes. Returns the number of removed bindings.
    pub fn connection_closed(&mut self, connection: u64, journal: &mut Journal) -> usize {
        let mut gone = 0;
        for slot in self.by_connection.remove(&connection).unwrap_or_default() {
            let ended = self.mark_ended(slot, |closed| closed == connection);
            let left = self.retain(slot, journal, |binding| {
                binding.flow_use != FlowUse::Only
                    || binding.flow.connection != connection
                    || binding.origin.is_some()
            });
            if ended && left == 0 {
                self.announce(slot, journal);
            }
            gone += left;
        }
        gone
    }

    /// Marks the loaded bindings of a user whose connections aren't open: they ended with the previous run.
    /// [`sweep`](Self::sweep) announces them, a few at a time.
    pub fn loaded(&mut self, aor: &[u8], is_open: impl Fn(u64) -> bool) {
        if let Some(slot) = self.find(aor)
            && self.mark_ended(slot, |connection| !is_open(connection))
        {
            self.unannounced.push(slot);
        }
    }

    /// Marks the bindings of a user created here whose connections are closed. Returns whether any mark is
    /// new. Without other nodes nobody needs the marks.
    fn mark_ended(&mut self, slot: u32, is_closed: impl Fn(u64) -> bool) -> bool {
        let Some(entry) = self.entries.get_mut(slot).filter(|_| self.nodes.is_some()) else { return false };
        let mut any = false;
        for binding in &mut entry.bindings {
            let closed = connection_of(binding).is_some_and(&is_closed);
            any |= closed && !binding.has_ended;
            binding.has_ended |= closed;
        }
        any
    }

    /// Records the bindings of a user for the other nodes.
    fn announce(&self, slot: u32, journal: &mut Journal) {
        if let Some(entry) = self.entries.get(slot) {
            record(journal, self.nodes.as_ref(), &entry.aor, &entry.bindings);
        }
    }

    /// Announces the closed connections of up to `count` users.
    fn announce_some(&mut self, count: usize, journal: &mut Journal) {
        let from = self.unannounced.len().saturating_sub(count);
        for slot in self.unannounced.split_off(from) {
            if bindings_in(&self.entries, slot).iter().any(|one| one.has_ended && one.origin.is_none()) {
                self.announce(slot, journal);
            }
        }
    }

    /// Lists users whose addresses of record begin with `prefix`: at most `most` users, from the `count`
    /// slots starting at `from`. Also returns the next slot, or `None` at the end of the table.
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

    /// Removes expired bindings from the next `count` slots, and announces closed connections of up to `count`
    /// users to other nodes. Returns the number of removed bindings.
    pub fn sweep(&mut self, count: u32, unix_secs: u64, journal: &mut Journal) -> usize {
        self.announce_some(count as usize, journal);
        let places = self.entries.places();
        let mut gone = 0;
        for _ in 0..count.min(places) {
            self.swept = if self.swept + 1 < places { self.swept + 1 } else { 0 };
            if self.swept == 0 {
                self.sweep_removed(unix_secs, journal);
            }
            gone += self.retain(self.swept, journal, |binding| !binding.has_expired(unix_secs));
        }
        gone
    }

    fn retain(&mut self, slot: u32, journal: &mut Journal, keep: impl Fn(&Binding) -> bool) -> usize {
        let Some(entry) = self.entries.get_mut(slot) else { return 0 };
        let (before, mut own_gone) = (entry.bindings.len(), false);
        let gruus = Gruus::of(&entry.bindings);
        entry.bindings.retain(|binding| {
            let stays = keep(binding);
            own_gone |= !stays && binding.origin.is_none();
            stays
        });
        let gone = before - entry.bindings.len();
        self.bindings -= gone;
        if own_gone {
            record(journal, self.nodes.as_ref(), &entry.aor, &entry.bindings);
        }
        if gone > 0 {
            self.settle(slot, &gruus);
        }
        gone
    }

    fn sweep_removed(&mut self, unix_secs: u64, journal: &mut Journal) {
        let changed = self.nodes.as_mut().map(|nodes| nodes.sweep(unix_secs)).unwrap_or_default();
        for aor in changed {
            record(journal, self.nodes.as_ref(), &aor, self.bindings(&aor));
        }
    }
}

#[cfg(test)]
mod tests;
