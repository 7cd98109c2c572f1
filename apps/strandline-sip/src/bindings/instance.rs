//! The instances of a user's phones (RFC 5626 section 4.1): the bindings of each, and the valid numbers of
//! temporary GRUUs (RFC 5627 section 5).

use std::collections::HashMap;

use super::binding::{Binding, is_same_instance};
use crate::transaction::Numbers;

/// Sorts bindings by their last refresh, the latest with the greatest key. A stamp of 0 is either not yet
/// assigned, or there is only one node, where the latest binding is the last of the list.
fn recency((place, binding): &(usize, &Binding)) -> (u64, usize) {
    (binding.stamp.wrapping_sub(1), *place)
}

/// The bindings of an instance that have not expired, the most recently refreshed first.
#[must_use]
pub fn bindings_of<'a>(bindings: &'a [Binding], instance: &[u8], unix_secs: u64) -> Vec<&'a Binding> {
    let is_meant =
        |binding: &Binding| !binding.has_expired(unix_secs) && is_same_instance(&binding.instance, instance);
    let mut found: Vec<_> = bindings.iter().enumerate().filter(|(_, binding)| is_meant(binding)).collect();
    found.sort_by_key(|found| core::cmp::Reverse(recency(found)));
    found.into_iter().map(|(_, binding)| binding).collect()
}

/// Returns true if `one` was refreshed after `other`. Both are positions in `bindings`.
pub(crate) fn is_later(bindings: &[Binding], one: usize, other: usize) -> bool {
    let of = |place: usize| bindings.get(place).map(|binding| recency(&(place, binding)));
    of(one) > of(other)
}

/// Returns true for a number that invalidated all earlier numbers of its instance, because the Call-ID had
/// changed.
#[must_use]
pub const fn has_ended_others(gruu: u64) -> bool {
    gruu & 1 == 1
}

/// The instance whose temporary GRUUs contain this number; `None` if they are no longer valid.
#[must_use]
pub fn instance_of(bindings: &[Binding], gruu: u64, unix_secs: u64) -> Option<&[u8]> {
    let is_live = |binding: &Binding| !binding.has_expired(unix_secs);
    let holders = bindings.iter().enumerate().filter(|(_, one)| one.gruu == gruu && is_live(one));
    let holder = holders.max_by_key(recency)?;
    let instance = &holder.1.instance;
    // Each node stores only its own bindings, so a number may be invalidated at one node and still be stored
    // at another.
    let is_ended = bindings.iter().enumerate().any(|other| {
        has_ended_others(other.1.gruu)
            && other.1.gruu != gruu
            && is_live(other.1)
            && is_same_instance(&other.1.instance, instance)
            && recency(&other) > recency(&holder)
    });
    (!is_ended && gruu != 0).then_some(instance)
}

/// Finds users by the numbers of their temporary GRUUs.
#[derive(Debug, Default)]
pub(super) struct Gruus {
    places: HashMap<u64, u32, Numbers>,
}

impl Gruus {
    /// The numbers of a user. Most users have none.
    pub(super) fn of(bindings: &[Binding]) -> Vec<u64> {
        bindings.iter().map(|binding| binding.gruu).filter(|gruu| *gruu != 0).collect()
    }

    /// Updates the index after a change of the user at `slot`, whose numbers were `before`.
    pub(super) fn update(&mut self, slot: u32, before: &[u64], bindings: &[Binding]) {
        for gone in before.iter().filter(|gruu| !bindings.iter().any(|binding| binding.gruu == **gruu)) {
            if self.places.get(gone) == Some(&slot) {
                self.places.remove(gone);
            }
        }
        for binding in bindings.iter().filter(|binding| binding.gruu != 0) {
            self.places.insert(binding.gruu, slot);
        }
    }

    pub(super) fn find(&self, gruu: u64) -> Option<u32> {
        self.places.get(&gruu).copied()
    }
}

#[cfg(test)]
mod tests;
