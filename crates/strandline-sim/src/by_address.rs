//! A map by a peer's address. An association has few of them, so that a list is faster than a tree.

use core::net::IpAddr;

/// Values by address, in the order in which the addresses appeared.
#[derive(Debug, Clone)]
pub(crate) struct ByAddress<T> {
    entries: Vec<(IpAddr, T)>,
}

impl<T> Default for ByAddress<T> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T> ByAddress<T> {
    pub(crate) fn get(&self, of: IpAddr) -> Option<&T> {
        self.entries.iter().find(|(address, _)| *address == of).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, of: IpAddr) -> Option<&mut T> {
        self.entries.iter_mut().find(|(address, _)| *address == of).map(|(_, value)| value)
    }

    /// Sets the value of an address. Returns the one before.
    pub(crate) fn insert(&mut self, of: IpAddr, value: T) -> Option<T> {
        match self.get_mut(of) {
            Some(known) => Some(core::mem::replace(known, value)),
            None => {
                self.entries.push((of, value));
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, of: IpAddr) -> Option<T> {
        let at = self.entries.iter().position(|(address, _)| *address == of)?;
        Some(self.entries.swap_remove(at).1)
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (IpAddr, &mut T)> {
        self.entries.iter_mut().map(|(address, value)| (*address, value))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|(_, value)| value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|(_, value)| value)
    }
}

impl<T: Default> ByAddress<T> {
    /// Returns the value of an address, which is the default before it is set.
    pub(crate) fn of(&mut self, address: IpAddr) -> &mut T {
        let at = self.entries.iter().position(|(known, _)| *known == address).unwrap_or_else(|| {
            self.entries.push((address, T::default()));
            self.entries.len() - 1
        });
        &mut self.entries[at].1
    }
}
