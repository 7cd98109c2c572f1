//! A cache of what earlier associations learnt of the path to an address (temporal sharing, RFC 9040): the path MTU
//! that a probe confirmed, and the round-trip time. The next association with that address begins with packets of
//! that size, and repeats INIT and COOKIE ECHO as soon as their answers are late, instead of after RTO.Initial.
//!
//! Only a peer that has answered with our tag gets an entry, so nobody can write one for somebody else's address.

use core::hash::Hasher;
use core::net::IpAddr;
use core::time::Duration;

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

use crate::time::Time;

/// Lifetime of an entry: as long as a search for a larger path MTU pauses (RFC 8899 section 5.1.1).
const KNOWN_FOR: Duration = Duration::from_secs(600);

/// The cached properties of the path to an address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Confirmed size of IP packets in bytes, including headers.
    pub(crate) mtu: Option<u16>,
    /// SRTT and RTTVAR.
    pub(crate) rtt: Option<(Duration, Duration)>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    address: IpAddr,
    /// Confirmed path MTU in bytes; 0 if unknown.
    mtu: u16,
    mtu_at: Time,
    rtt: Option<(Duration, Duration)>,
    rtt_at: Time,
}

/// A cache of the latest addresses, in a ring: a new entry replaces the oldest.
#[derive(Debug)]
pub(crate) struct KnownPaths {
    entries: Vec<Entry>,
    /// Maps an address to its index in `entries`.
    by_address: HashTable<u32>,
    /// Index of the next entry to replace when the ring is full.
    next: usize,
    most: usize,
    keys: (u64, u64),
}

impl KnownPaths {
    /// Creates a cache of at most `most` addresses, which take about 100 bytes each. `keys` are random.
    pub(crate) fn new(most: u32, keys: (u64, u64)) -> Self {
        Self { entries: Vec::new(), by_address: HashTable::new(), next: 0, most: most as usize, keys }
    }

    pub(crate) fn get(&self, now: Time, address: IpAddr) -> Known {
        let Some(entry) = self.place(address).and_then(|place| self.entries.get(place)) else {
            return Known::default();
        };
        Known {
            mtu: (entry.mtu != 0 && now.since(entry.mtu_at) < KNOWN_FOR).then_some(entry.mtu),
            rtt: entry.rtt.filter(|_| now.since(entry.rtt_at) < KNOWN_FOR),
        }
    }

    /// Records that a probe of `mtu` bytes arrived.
    pub(crate) fn learn_mtu(&mut self, now: Time, address: IpAddr, mtu: u16) {
        if let Some(entry) = self.entry(address) {
            entry.mtu = mtu;
            entry.mtu_at = now;
        }
    }

    /// Forgets the path MTU, because packets of that size do not arrive.
    pub(crate) fn forget_mtu(&mut self, address: IpAddr) {
        if let Some(entry) = self.place(address).and_then(|place| self.entries.get_mut(place)) {
            entry.mtu = 0;
        }
    }

    pub(crate) fn learn_rtt(&mut self, now: Time, address: IpAddr, srtt: Duration, rttvar: Duration) {
        if let Some(entry) = self.entry(address) {
            entry.rtt = Some((srtt, rttvar));
            entry.rtt_at = now;
        }
    }

    fn hash(&self, address: IpAddr) -> u64 {
        hash(self.keys, address)
    }

    fn place(&self, address: IpAddr) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let address = address.to_canonical();
        let is =
            |place: &u32| self.entries.get(*place as usize).is_some_and(|entry| entry.address == address);
        self.by_address.find(self.hash(address), is).map(|place| *place as usize)
    }

    /// Returns the entry of an address, creating it if needed; `None` if the cache has no capacity.
    fn entry(&mut self, address: IpAddr) -> Option<&mut Entry> {
        let address = address.to_canonical();
        let place = match self.place(address) {
            Some(place) => place,
            None => self.make(address)?,
        };
        self.entries.get_mut(place)
    }

    fn make(&mut self, address: IpAddr) -> Option<usize> {
        let new = Entry { address, mtu: 0, mtu_at: Time::ZERO, rtt: None, rtt_at: Time::ZERO };
        let place = if self.entries.len() < self.most {
            self.entries.push(new);
            self.entries.len() - 1
        } else {
            let place = self.next;
            let oldest = self.entries.get_mut(place)?;
            let gone = core::mem::replace(oldest, new);
            if let Ok(found) = self.by_address.find_entry(self.hash(gone.address), |at| *at as usize == place)
            {
                found.remove();
            }
            self.next = (place + 1) % self.most;
            place
        };
        let Self { entries, by_address, keys, .. } = self;
        let of = |at: &u32| entries.get(*at as usize).map_or(0, |entry| hash(*keys, entry.address));
        by_address.insert_unique(hash(*keys, address), u32::try_from(place).ok()?, of);
        Some(place)
    }
}

fn hash(keys: (u64, u64), address: IpAddr) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(keys.0, keys.1);
    match address {
        IpAddr::V4(address) => hasher.write_u32(address.to_bits()),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            hasher.write_u64((bits >> 64) as u64);
            hasher.write_u64(bits as u64);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
