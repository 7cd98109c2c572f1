//! Who guesses passwords: wrong ones are counted by where they come from and for which user, in a table of fixed size. After so
//! many, credentials from there for that user are not looked at until time has passed; nobody else notices.

use core::hash::{Hash, Hasher};
use core::net::IpAddr;

use siphasher::sip::SipHasher13;

use crate::transaction::Time;

/// Sets of places, and places in each.
const SETS: usize = 1 << 14;
const WAYS: usize = 4;
/// One wrong password is forgiven after so long, milliseconds.
const FORGIVEN_MS: u64 = 30_000;
/// One address may be wrong about so many times as many as one user of it: many phones may be behind it.
const EACH_ADDRESS: u32 = 20;

/// Wrong passwords of one origin.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// What tells it from others in its set; 0 if it is free.
    mark: u32,
    /// Not yet forgiven, as they were at that time.
    wrong: u32,
    at_ms: u64,
}

impl Place {
    fn wrong_at(&self, now: Time, forgiven_ms: u64) -> u32 {
        let forgiven = now.as_millis().saturating_sub(self.at_ms) / forgiven_ms;
        self.wrong.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX))
    }
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GuessCounters {
    /// Wrong passwords.
    pub wrong: u64,
    /// Credentials that were not looked at.
    pub refused: u64,
}

/// The table.
#[derive(Debug)]
pub(super) struct Guesses {
    hasher: SipHasher13,
    places: Vec<[Place; WAYS]>,
    /// Wrong ones that are put up with; 0: all.
    most: u32,
    pub(super) counters: GuessCounters,
}

/// Where credentials come from: an IPv4 address, or the network of an IPv6 address.
fn origin(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 => v4,
    }
}

impl Guesses {
    pub(super) fn new(key: [u8; 16], most: u32) -> Self {
        let places = if most == 0 { Vec::new() } else { vec![[Place::default(); WAYS]; SETS] };
        Self { hasher: SipHasher13::new_with_key(&key), places, most, counters: GuessCounters::default() }
    }

    /// Of one user at one address, and of the address: the set and the mark, and what is put up with.
    fn keys(&self, source: IpAddr, user: &[u8]) -> [(usize, u32, u64, u32); 2] {
        let hash = |user: Option<&[u8]>| {
            let mut hasher = self.hasher;
            origin(source).hash(&mut hasher);
            user.hash(&mut hasher);
            let hash = hasher.finish();
            ((hash % SETS as u64) as usize, (hash >> 32) as u32 | 1)
        };
        let ((one_set, one), (all_set, all)) = (hash(Some(user)), hash(None));
        let each = u64::from(EACH_ADDRESS);
        [
            (one_set, one, FORGIVEN_MS, self.most),
            (all_set, all, FORGIVEN_MS / each, self.most.saturating_mul(EACH_ADDRESS)),
        ]
    }

    /// Were there too many?
    pub(super) fn are_too_many(&mut self, now: Time, source: IpAddr, user: &[u8]) -> bool {
        if self.most == 0 {
            return false;
        }
        let too_many = self.keys(source, user).into_iter().any(|(set, mark, forgiven_ms, most)| {
            let places = self.places.get(set).into_iter().flatten();
            places.filter(|place| place.mark == mark).any(|place| place.wrong_at(now, forgiven_ms) >= most)
        });
        self.counters.refused += u64::from(too_many);
        too_many
    }

    /// One more was wrong. Where there is no place it takes that of who was wrong least.
    pub(super) fn wrong(&mut self, now: Time, source: IpAddr, user: &[u8]) {
        self.counters.wrong += 1;
        if self.most == 0 {
            return;
        }
        for (set, mark, forgiven_ms, most) in self.keys(source, user) {
            let Some(places) = self.places.get_mut(set) else { continue };
            let own = places.iter().position(|place| place.mark == mark);
            let least = (0..WAYS).min_by_key(|way| {
                places.get(*way).map_or(u32::MAX, |place| place.wrong_at(now, forgiven_ms))
            });
            let Some(place) = own.or(least).and_then(|way| places.get_mut(way)) else { continue };
            let before = if own.is_some() { place.wrong_at(now, forgiven_ms) } else { 0 };
            *place = Place { mark, wrong: (before + 1).min(most), at_ms: now.as_millis() };
        }
    }

    /// The password was right: what was wrong before was a mistake.
    pub(super) fn right(&mut self, source: IpAddr, user: &[u8]) {
        if self.most == 0 || self.counters.wrong == 0 {
            return;
        }
        let [(set, mark, ..), _] = self.keys(source, user);
        let places = self.places.get_mut(set).into_iter().flatten();
        places.filter(|place| place.mark == mark).for_each(|place| *place = Place::default());
    }
}

#[cfg(test)]
mod tests;
