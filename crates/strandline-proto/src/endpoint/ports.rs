//! Local SCTP ports: listeners, and the number of associations on each port.

use core::net::IpAddr;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::linear_hash::SPREAD_FACTOR;
use crate::time::Time;
use crate::zone;

/// How long a port counts as ours after its last association has ended: as long as a peer repeats SHUTDOWN ACK with
/// the default parameters.
const ENDED_FOR: Duration = Duration::from_secs(300);

/// Maximum number of such ports. When it is reached, no more are added.
const ENDED_MAX: usize = 1024;

/// Hashes a port with one multiplication. Ports are few and chosen by this host, so no key is needed.
#[derive(Debug, Default)]
struct PortHasher(u64);

impl Hasher for PortHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(SPREAD_FACTOR);
        }
    }

    fn write_u16(&mut self, port: u16) {
        self.0 = u64::from(port).wrapping_mul(SPREAD_FACTOR);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type PortMap<T> = HashMap<u16, T, BuildHasherDefault<PortHasher>>;

#[derive(Debug)]
pub(super) struct Ports {
    /// The local addresses of each listener; none for all of the endpoint's.
    listening: PortMap<Box<[IpAddr]>>,
    associations: PortMap<u32>,
    /// Ports that no other process can use, for shared carriers.
    reserved: Vec<RangeInclusive<u16>>,
    /// Ports whose last association has ended, and until when they are remembered, for shared carriers.
    ended: PortMap<Time>,
    ephemeral: (u16, u16),
}

impl Ports {
    pub(super) fn new(ephemeral: (u16, u16)) -> Self {
        Self {
            listening: PortMap::default(),
            associations: PortMap::default(),
            reserved: Vec::new(),
            ended: PortMap::default(),
            ephemeral,
        }
    }

    pub(super) fn listens(&self, port: u16) -> bool {
        self.listening.contains_key(&port)
    }

    /// True if packets to the port concern this endpoint.
    pub(super) fn knows(&self, port: u16) -> bool {
        self.listens(port) || self.associations.contains_key(&port)
    }

    /// True if packets to the port are answered although it has no association, because no other process has the port
    /// either.
    pub(super) fn is_ours(&self, now: Time, port: u16) -> bool {
        self.knows(port)
            || self.reserved.iter().any(|range| range.contains(&port))
            || self.ended.get(&port).is_some_and(|until| *until > now)
    }

    /// Sets the ports that no other process can use.
    pub(super) fn set_reserved(&mut self, reserved: Vec<RangeInclusive<u16>>) {
        self.reserved = reserved;
    }

    /// Records that an association of the port has ended.
    pub(super) fn note_end(&mut self, now: Time, port: u16) {
        if self.reserved.iter().any(|range| range.contains(&port)) {
            return;
        }
        if self.ended.len() >= ENDED_MAX {
            self.ended.retain(|_, until| *until > now);
        }
        if self.ended.len() < ENDED_MAX || self.ended.contains_key(&port) {
            self.ended.insert(port, now + ENDED_FOR);
        }
    }

    /// True if the port has a listener that packets to the address are for.
    pub(super) fn listens_at(&self, port: u16, destination: Option<IpAddr>) -> bool {
        let Some(own) = self.listening.get(&port) else { return false };
        let is = |address| own.iter().any(|own| zone::is_at(*own, address));
        own.is_empty() || destination.is_none_or(is)
    }

    /// Returns the local addresses of the port's listener; none for all of the endpoint's.
    pub(super) fn bound(&self, port: u16) -> &[IpAddr] {
        self.listening.get(&port).map_or(&[], |own| own)
    }

    /// Adds a listener. Returns false if the port already has one.
    pub(super) fn listen(&mut self, port: u16, addresses: Vec<IpAddr>) -> bool {
        let free = !self.listens(port);
        if free {
            self.listening.insert(port, addresses.into_boxed_slice());
        }
        free
    }

    /// Sets the local addresses of the port's listener.
    pub(super) fn rebind(&mut self, port: u16, addresses: Vec<IpAddr>) {
        if let Some(own) = self.listening.get_mut(&port) {
            *own = addresses.into_boxed_slice();
        }
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

    /// Returns a port of the ephemeral range that `free` accepts. The search starts at a random port.
    pub(super) fn pick(&self, random: u32, free: impl Fn(u16) -> bool) -> Option<u16> {
        let (first, last) = self.ephemeral;
        let count = u32::from(last - first) + 1;
        let start = random % count;
        (0..count).map(|step| first + ((start + step) % count) as u16).find(|port| free(*port))
    }
}
