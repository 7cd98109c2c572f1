//! The owner of each association, by its slot in the engine. An association of a one-to-many endpoint without
//! waiting tasks costs only its entry here.

use std::collections::HashMap;

use strandline_proto::event::AssociationId;
use strandline_proto::number::StreamId;

use super::cell::Cell;
use super::dynamic_streams::Dynamic;

/// The owner of an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The one-to-many endpoint with this index.
    OneToMany(u32),
    /// A one-to-one handle, or a listener that has not accepted it yet.
    OneToOne,
    /// No owner: it delivers what was queued, and ends.
    Orphan,
}

#[derive(Debug)]
pub(crate) struct Entry {
    generation: u32,
    owner: Option<Owner>,
    /// It is in its endpoint's queue of readable associations.
    pub(crate) queued: bool,
    /// State that only some associations need; one-to-one associations always have it.
    pub(crate) cell: Option<Box<Cell>>,
}

impl Entry {
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// Returns the bytes of the entry, and of its cell.
    pub(crate) fn memory(&self) -> (usize, usize) {
        (size_of::<Self>(), self.cell.as_deref().map_or(0, size_of_val))
    }

    /// Returns the cell, creating it if necessary.
    pub(crate) fn cell_mut(&mut self) -> &mut Cell {
        self.cell.get_or_insert_default()
    }
}

/// Entries per block. Allocating in blocks means that growth neither copies entries nor leaves half of the
/// memory unused.
const BLOCK: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Table {
    blocks: Vec<Vec<Entry>>,
    used: usize,
    /// Number of associations of each one-to-many endpoint.
    of_endpoints: HashMap<u32, usize>,
}

impl Table {
    /// Adds an association.
    pub(crate) fn insert(&mut self, id: AssociationId, owner: Owner) {
        let slot = id.slot as usize;
        while self.blocks.len() <= slot / BLOCK {
            let empty = || Entry { generation: 0, owner: None, queued: false, cell: None };
            let mut block = Vec::with_capacity(BLOCK);
            block.resize_with(BLOCK, empty);
            self.blocks.push(block);
        }
        if let Some(entry) = self.at_mut(id.slot) {
            let was_free = entry.owner.is_none();
            *entry = Entry { generation: id.generation, owner: Some(owner), queued: false, cell: None };
            self.used += usize::from(was_free);
            self.count(owner, true);
        }
    }

    /// Counts an association more or less for its owner.
    fn count(&mut self, owner: Owner, more: bool) {
        let Owner::OneToMany(socket) = owner else { return };
        let count = self.of_endpoints.entry(socket).or_default();
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            self.of_endpoints.remove(&socket);
        }
    }

    /// Returns whether the one-to-many endpoint has associations.
    pub(crate) fn has_any_of(&self, socket: u32) -> bool {
        self.of_endpoints.contains_key(&socket)
    }

    /// Removes an association.
    pub(crate) fn remove(&mut self, id: AssociationId) {
        if let Some(entry) = self.get_mut(id) {
            let owner = entry.owner.take();
            entry.queued = false;
            entry.cell = None;
            self.used -= 1;
            owner.into_iter().for_each(|owner| self.count(owner, false));
        }
    }

    /// Changes the owner of an association.
    pub(crate) fn set_owner(&mut self, id: AssociationId, owner: Owner) {
        if let Some(entry) = self.get_mut(id) {
            let before = entry.owner.replace(owner);
            before.into_iter().for_each(|before| self.count(before, false));
            self.count(owner, true);
        }
    }

    /// Returns the entry of an association that has not been removed.
    pub(crate) fn get_mut(&mut self, id: AssociationId) -> Option<&mut Entry> {
        let entry = self.at_mut(id.slot)?;
        (entry.generation == id.generation && entry.owner.is_some()).then_some(entry)
    }

    pub(crate) fn get(&self, id: AssociationId) -> Option<&Entry> {
        let entry = self.blocks.get(id.slot as usize / BLOCK)?.get(id.slot as usize % BLOCK)?;
        (entry.generation == id.generation && entry.owner.is_some()).then_some(entry)
    }

    /// Returns the cell of an association, if it has one.
    pub(crate) fn cell_mut(&mut self, id: AssociationId) -> Option<&mut Cell> {
        self.get_mut(id)?.cell.as_deref_mut()
    }

    fn at_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.blocks.get_mut(slot as usize / BLOCK)?.get_mut(slot as usize % BLOCK)
    }

    /// Returns the number of associations that have not been removed.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Returns the number of slots that were ever used.
    pub(crate) fn slots(&self) -> u32 {
        (self.blocks.len() * BLOCK) as u32
    }

    /// Returns the association in a slot, and its owner.
    pub(crate) fn in_slot(&self, slot: u32) -> Option<(AssociationId, Owner)> {
        let entry = self.blocks.get(slot as usize / BLOCK)?.get(slot as usize % BLOCK)?;
        Some((AssociationId { slot, generation: entry.generation }, entry.owner?))
    }
}

/// Lets [`dispatch`](super::state::State::dispatch) move the messages of an association to the queues of its readers.
pub(super) fn route(to_route: &mut Vec<AssociationId>, id: AssociationId) {
    if to_route.last() != Some(&id) {
        to_route.push(id);
    }
}

/// Returns the dynamic streams of an association, if it has any.
pub(super) fn dynamic_of(table: &mut Table, id: AssociationId) -> Option<&mut Dynamic> {
    table.cell_mut(id)?.routes.as_mut()?.dynamic.as_deref_mut()
}

/// Returns whether a stream is opened and closed at run time, so that only its own writer may send on it.
pub(crate) fn is_dynamic(table: &Table, id: AssociationId, stream: StreamId) -> bool {
    let cell = table.get(id).and_then(|entry| entry.cell.as_deref());
    let dynamic = cell.and_then(|cell| cell.routes.as_ref()?.dynamic.as_ref());
    dynamic.is_some_and(|dynamic| stream >= dynamic.settings.first)
}

#[cfg(test)]
mod tests;
