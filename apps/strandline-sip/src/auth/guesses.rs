//! Limits on password guessing. Wrong passwords are counted by source and user in a table of fixed size.
//! After too many, credentials from that source are rejected unchecked for some time. A phone that has
//! recently authenticated from there is exempt, because many phones may share an address with an attacker.

use core::hash::{Hash, Hasher};
use core::net::{IpAddr, SocketAddr};
use std::collections::HashSet;

use siphasher::sip::SipHasher13;

use super::nonce::Recipient;
use crate::transaction::Time;

/// Number of sets in the table, and slots in each set.
const SETS: usize = 1 << 14;
const WAYS: usize = 4;
/// Time after which one wrong password is forgiven, in milliseconds.
const FORGIVEN_MS: u64 = 30_000;
/// Factor between the limit for an address and the limit for one user at it, because many phones may be
/// behind one address.
const EACH_ADDRESS: u32 = 20;
/// Maximum number of entries in each of the two sets of good sources, which take 10 MB together. A user at an
/// address has two or three entries.
const GOOD_MAX: usize = (1 << 19) / 8 * 7;
/// How long one of these sets is filled, in milliseconds; an entry lasts for one to two days.
const GOOD_TURN_MS: u64 = 86_400_000;

/// The wrong passwords of one origin.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Distinguishes the origin within its set; 0 for a free slot.
    mark: u32,
    /// The number of wrong passwords not yet forgiven, as of `at_ms`.
    wrong: u32,
    at_ms: u64,
}

impl Place {
    fn wrong_at(&self, now: Time, forgiven_ms: u64) -> u32 {
        let forgiven = now.as_millis().saturating_sub(self.at_ms) / forgiven_ms;
        self.wrong.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX))
    }
}

/// Counters of wrong passwords.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GuessCounters {
    /// Number of wrong passwords.
    pub wrong: u64,
    /// Number of credentials rejected unchecked.
    pub refused: u64,
}

/// The table of wrong passwords.
#[derive(Debug)]
pub(super) struct Guesses {
    hasher: SipHasher13,
    places: Vec<[Place; WAYS]>,
    /// Maximum number of wrong passwords; 0 for no limit.
    most: u32,
    pub(super) counters: GuessCounters,
    good: Good,
}

/// The source of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guesser {
    /// The address of the phone. Behind a trusted edge, the address that the edge reports.
    pub address: SocketAddr,
    /// True if the port belongs to the phone alone. A proxy shares one port among several phones.
    pub is_own_port: bool,
    /// The edge that reports the address. The phone may have forged parts of what the edge passes on.
    pub edge: Option<IpAddr>,
    /// A hash of the Call-ID of a REGISTER; 0 for other requests. A phone keeps its Call-ID when it reconnects
    /// (RFC 3261 section 10.2.4), and others don't see it.
    pub call: u64,
}

impl Guesser {
    /// Where a challenge to this source is sent.
    pub(super) const fn recipient(&self) -> Recipient {
        Recipient { address: self.address.ip(), is_behind_edge: self.edge.is_some() }
    }
}

/// Whether a user is registered from a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The user is not registered from there.
    Unknown,
    /// The user is registered from this address.
    Address,
    /// The user is registered from this address, with the Call-ID of the request.
    Call,
    /// The user is registered from this address and port.
    Port,
}

/// Users who have recently authenticated, by address, by address and port, and by address and Call-ID.
#[derive(Debug, Default)]
struct Good {
    current: HashSet<u64>,
    last: HashSet<u64>,
    turned_ms: u64,
}

impl Good {
    fn insert(&mut self, now: Time, mark: u64) {
        if now.as_millis() > self.turned_ms + GOOD_TURN_MS || self.current.len() >= GOOD_MAX {
            self.turned_ms = now.as_millis();
            core::mem::swap(&mut self.current, &mut self.last);
            self.current.clear();
        }
        self.current.insert(mark);
    }

    fn contains(&self, mark: u64) -> bool {
        self.current.contains(&mark) || self.last.contains(&mark)
    }
}

/// The slot of a counter, the time after which one is forgiven, and the limit.
#[derive(Debug, Clone, Copy)]
struct Key {
    set: usize,
    mark: u32,
    forgiven_ms: u64,
    most: u32,
}

/// The counters that a guess affects.
#[derive(Debug, Clone, Copy)]
struct Keys {
    /// For the user at the address.
    user: Key,
    /// For the address.
    all: Key,
    /// For the user at the address and port.
    port: Key,
    /// For the user behind the edge.
    edge: Option<Key>,
    /// For the user at the address with the Call-ID.
    call: Option<Key>,
    good_address: u64,
    good_port: u64,
    good_call: u64,
}

/// The part of an address that one customer has: a whole IPv4 address, or the network of an IPv6 address.
fn origin(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 => v4,
    }
}

/// Returns true if both addresses count as one origin.
#[must_use]
pub fn is_same_origin(one: IpAddr, other: IpAddr) -> bool {
    origin(one) == origin(other)
}

impl Guesses {
    pub(super) fn new(key: [u8; 16], most: u32) -> Self {
        let places = if most == 0 { Vec::new() } else { vec![[Place::default(); WAYS]; SETS] };
        let (counters, good) = (GuessCounters::default(), Good::default());
        Self { hasher: SipHasher13::new_with_key(&key), places, most, counters, good }
    }

    fn hash(&self, source: IpAddr, port: Option<u16>, user: Option<&[u8]>) -> u64 {
        let mut hasher = self.hasher;
        source.hash(&mut hasher);
        if let Some(port) = port {
            hasher.write_u16(port);
        }
        user.hash(&mut hasher);
        hasher.finish()
    }

    fn keys(&self, guesser: &Guesser, user: &[u8]) -> Keys {
        let address = guesser.address.ip().to_canonical();
        let user_hash = self.hash(origin(address), None, Some(user));
        let all_hash = self.hash(origin(address), None, None);
        let port_hash = self.hash(address, Some(guesser.address.port()), Some(user));
        let mut call_hasher = self.hasher;
        (user_hash, guesser.call).hash(&mut call_hasher);
        let call_hash = call_hasher.finish();
        let key = |hash: u64, times: u32| Key {
            set: (hash % SETS as u64) as usize,
            mark: (hash >> 32) as u32 | 1,
            forgiven_ms: FORGIVEN_MS / u64::from(times),
            most: self.most.saturating_mul(times),
        };
        Keys {
            user: key(user_hash, 1),
            all: key(all_hash, EACH_ADDRESS),
            port: key(port_hash, 1),
            edge: guesser
                .edge
                .map(|edge| key(self.hash(edge.to_canonical(), Some(0), Some(user)), EACH_ADDRESS)),
            call: (guesser.call != 0).then(|| key(call_hash, 1)),
            good_address: user_hash,
            good_port: port_hash,
            good_call: call_hash,
        }
    }

    /// A hash of a Call-ID, not 0.
    pub(super) fn call(&self, call_id: &[u8]) -> u64 {
        let mut hasher = self.hasher;
        call_id.hash(&mut hasher);
        hasher.finish() | 1
    }

    fn is_over(&self, now: Time, key: Key) -> bool {
        let mut places = self.places.get(key.set).into_iter().flatten();
        places.any(|place| place.mark == key.mark && place.wrong_at(now, key.forgiven_ms) >= key.most)
    }

    /// Returns true if credentials must be rejected unchecked. A user who has recently authenticated from the
    /// address, or is registered from it, is not affected by guesses at other users, nor, with the same
    /// address and port or with the same Call-ID, by guesses at the same user.
    pub(super) fn are_too_many(
        &mut self,
        now: Time,
        guesser: &Guesser,
        user: &[u8],
        standing: Standing,
    ) -> bool {
        if self.most == 0 {
            return false;
        }
        let keys = self.keys(guesser, user);
        let (user_over, all_over) = (self.is_over(now, keys.user), self.is_over(now, keys.all));
        let edge_over = keys.edge.is_some_and(|key| self.is_over(now, key));
        if !user_over && !all_over && !edge_over {
            return false;
        }
        let good_port = guesser.is_own_port
            && (standing == Standing::Port || self.good.contains(keys.good_port))
            && !self.is_over(now, keys.port);
        let good_call = keys.call.is_some_and(|call| {
            // Wrong passwords with this Call-ID count from now on.
            if standing == Standing::Call {
                self.good.insert(now, keys.good_call);
            }
            self.good.contains(keys.good_call) && !self.is_over(now, call)
        });
        let good_address =
            !user_over && (standing != Standing::Unknown || self.good.contains(keys.good_address));
        !good_port && !good_call && !good_address
    }

    /// Counts credentials that were rejected unchecked.
    pub(super) const fn refused(&mut self) {
        self.counters.refused += 1;
    }

    /// Takes over the counters of an earlier table, if both have a limit or neither has.
    pub(super) fn inherit(&mut self, other: Self) {
        match (self.most, other.most) {
            (0, 0) | (1.., 1..) => *self = Self { most: self.most, ..other },
            _ => self.counters = other.counters,
        }
    }

    /// Counts a wrong password.
    pub(super) fn wrong(&mut self, now: Time, guesser: &Guesser, user: &[u8]) {
        self.counters.wrong += 1;
        if self.most == 0 {
            return;
        }
        let keys = self.keys(guesser, user);
        self.count(now, keys.user);
        self.count(now, keys.all);
        if let Some(key) = keys.edge {
            self.count(now, key);
        }
        if guesser.is_own_port {
            self.count(now, keys.port);
        }
        // Others would only fill the table.
        if let Some(key) = keys.call.filter(|_| self.good.contains(keys.good_call)) {
            self.count(now, key);
        }
    }

    /// Adds one to a counter. If its set is full, it replaces the entry with the fewest wrong passwords.
    fn count(&mut self, now: Time, key: Key) {
        let Key { set, mark, forgiven_ms, most } = key;
        let Some(places) = self.places.get_mut(set) else { return };
        let own = places.iter().position(|place| place.mark == mark);
        let least = (0..WAYS)
            .min_by_key(|way| places.get(*way).map_or(u32::MAX, |place| place.wrong_at(now, forgiven_ms)));
        let Some(place) = own.or(least).and_then(|way| places.get_mut(way)) else { return };
        let before = if own.is_some() { place.wrong_at(now, forgiven_ms) } else { 0 };
        *place = Place { mark, wrong: (before + 1).min(most), at_ms: now.as_millis() };
    }

    /// Records a right password. Earlier wrong ones are forgiven as mistakes, unless the user had already
    /// authenticated from there: somebody else may then share the address.
    pub(super) fn right(&mut self, now: Time, guesser: &Guesser, user: &[u8]) {
        if self.most == 0 {
            return;
        }
        let keys = self.keys(guesser, user);
        if self.counters.wrong > 0 {
            self.forget(keys.port);
            keys.call.into_iter().for_each(|call| self.forget(call));
            if !self.good.contains(keys.good_address) {
                self.forget(keys.user);
            }
        }
        self.good.insert(now, keys.good_address);
        if guesser.is_own_port {
            self.good.insert(now, keys.good_port);
        }
        if keys.call.is_some() {
            self.good.insert(now, keys.good_call);
        }
    }

    fn forget(&mut self, key: Key) {
        let places = self.places.get_mut(key.set).into_iter().flatten();
        places.filter(|place| place.mark == key.mark).for_each(|place| *place = Place::default());
    }
}

#[cfg(test)]
mod tests;
