//! The endpoint's associations by slot. A slot's generation distinguishes an old identifier from its successor.

use crate::association::Association;
use crate::event::AssociationId;

#[derive(Debug)]
struct Slot {
    generation: u32,
    association: Option<Box<Association>>,
}

/// The table of associations. Slots are reused, the last freed first, so that the table stays dense.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    used: usize,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Returns the identifier that the next `insert` will use.
    pub(super) fn next_id(&self) -> AssociationId {
        match self.free.last() {
            Some(slot) => {
                let generation = self.slots.get(*slot as usize).map_or(0, |slot| slot.generation);
                AssociationId { slot: *slot, generation }
            }
            None => AssociationId { slot: self.slots.len() as u32, generation: 0 },
        }
    }

    /// Stores an association under the identifier that `next_id` returned.
    pub(super) fn insert(&mut self, association: Association) {
        let association = Some(Box::new(association));
        self.used += 1;
        match self.free.pop() {
            Some(slot) => {
                if let Some(place) = self.slots.get_mut(slot as usize) {
                    place.association = association;
                }
            }
            None => self.slots.push(Slot { generation: 0, association }),
        }
    }

    pub(super) fn remove(&mut self, slot: u32) {
        if let Some(place) = self.slots.get_mut(slot as usize)
            && place.association.take().is_some()
        {
            place.generation = place.generation.wrapping_add(1);
            self.used -= 1;
            self.free.push(slot);
        }
    }

    pub(super) fn at(&self, slot: u32) -> Option<&Association> {
        self.slots.get(slot as usize)?.association.as_deref()
    }

    pub(super) fn at_mut(&mut self, slot: u32) -> Option<&mut Association> {
        self.slots.get_mut(slot as usize)?.association.as_deref_mut()
    }

    /// Returns all associations.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Association> {
        self.slots.iter_mut().filter_map(|slot| slot.association.as_deref_mut())
    }

    pub(super) fn by_id(&self, id: AssociationId) -> Option<&Association> {
        self.at(id.slot).filter(|association| association.id == id)
    }

    pub(super) fn by_id_mut(&mut self, id: AssociationId) -> Option<&mut Association> {
        self.at_mut(id.slot).filter(|association| association.id == id)
    }

    /// Bytes of the table per association.
    pub(super) const SLOT_BYTES: usize = size_of::<Slot>();
}
