//! Local SCTP ports: who listens, and how many associations use each.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// Ports are few and ours: no key is needed.
type PortMap<T> = HashMap<u16, T, BuildHasherDefault<std::hash::DefaultHasher>>;

#[derive(Debug)]
pub(super) struct Ports {
    listening: PortMap<()>,
    associations: PortMap<u32>,
    ephemeral: (u16, u16),
}

impl Ports {
    pub(super) fn new(ephemeral: (u16, u16)) -> Self {
        Self { listening: PortMap::default(), associations: PortMap::default(), ephemeral }
    }

    pub(super) fn listens(&self, port: u16) -> bool {
        self.listening.contains_key(&port)
    }

    /// True if packets to the port concern this endpoint.
    pub(super) fn knows(&self, port: u16) -> bool {
        self.listens(port) || self.associations.contains_key(&port)
    }

    /// False if somebody listens there already.
    pub(super) fn listen(&mut self, port: u16) -> bool {
        self.listening.insert(port, ()).is_none()
    }

    pub(super) fn close(&mut self, port: u16) {
        self.listening.remove(&port);
    }

    pub(super) fn add_association(&mut self, port: u16) {
        *self.associations.entry(port).or_insert(0) += 1;
    }

    pub(super) fn remove_association(&mut self, port: u16) {
        if let Some(count) = self.associations.get_mut(&port) {
            *count -= 1;
            if *count == 0 {
                self.associations.remove(&port);
            }
        }
    }

    /// A port of the ephemeral range that `free` accepts, tried from a random place on.
    pub(super) fn pick(&self, random: u32, free: impl Fn(u16) -> bool) -> Option<u16> {
        let (first, last) = self.ephemeral;
        let count = u32::from(last - first) + 1;
        let start = random % count;
        (0..count).map(|step| first + ((start + step) % count) as u16).find(|port| free(*port))
    }
}
