//! Nonces that need no memory until they are used, and that are never accepted twice with the same count.

use core::hash::Hasher;
use core::net::IpAddr;
use core::time::Duration;

use siphasher::sip::SipHasher24;

use crate::transaction::Time;

/// The state of a nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    /// The nonce is this server's, and the count is new.
    Fresh,
    /// The nonce is this server's, but expired or used up.
    Stale,
    /// The nonce is not this server's.
    Forged,
}

/// Where a nonce is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipient {
    /// The address of the phone.
    pub address: IpAddr,
    /// True if a trusted edge proxy passes the nonce on to this address.
    pub is_behind_edge: bool,
}

impl From<IpAddr> for Recipient {
    fn from(address: IpAddr) -> Self {
        Self { address, is_behind_edge: false }
    }
}

/// The last nonce stored in this slot.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    number: u64,
    made: u64,
    /// The highest count used, and a bit mask of the 32 counts before it.
    count: u32,
    before: u32,
    /// Only nonces made after this are accepted in place of this one.
    floor: u64,
}

/// Makes nonces, and records the used counts in a table of fixed size. If two active nonces share a slot, the
/// older becomes stale and its phone gets a new one.
#[derive(Debug)]
pub struct Nonces {
    hasher: SipHasher24,
    /// The number of this run, which is part of each nonce.
    run: u64,
    next: u64,
    lifetime: Duration,
    used: Vec<Used>,
}

impl Nonces {
    /// Creates a generator with a random key. `places` is the number of nonces that can be active at once, at
    /// 40 bytes each.
    #[must_use]
    pub fn new(key: [u8; 16], lifetime: Duration, places: usize) -> Self {
        Self {
            hasher: SipHasher24::new_with_key(&key),
            run: 0,
            next: 1,
            lifetime,
            used: vec![Used::default(); places.max(1)],
        }
    }

    /// Sets a random number that distinguishes this run from other makers of nonces with the same key: other
    /// nodes, and earlier runs. Their nonces are stale here, because only they know which counts were used.
    #[must_use]
    pub const fn of_run(mut self, run: u64) -> Self {
        self.run = run;
        self
    }

    fn seal(&self, made: u64, number: u64, run: u64) -> u64 {
        let mut hasher = self.hasher;
        hasher.write_u64(made);
        hasher.write_u64(number);
        hasher.write_u64(run);
        hasher.finish()
    }

    /// A hash that binds a nonce to the address to which it is sent.
    fn mark(&self, seal: u64, to: Recipient) -> u32 {
        let mut hasher = self.hasher;
        hasher.write_u64(seal);
        hasher.write_u8(u8::from(to.is_behind_edge));
        match to.address.to_canonical() {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
        hasher.finish() as u32
    }

    /// Makes a nonce for `to`.
    #[must_use]
    pub fn make(&mut self, now: Time, to: impl Into<Recipient>) -> String {
        let (made, number, run) = (now.as_millis() + 1, self.next, self.run);
        self.next += 1;
        let seal = self.seal(made, number, run);
        format!("{made:x}.{number:x}.{run:x}.{seal:016x}.{:08x}", self.mark(seal, to.into()))
    }

    /// The time, number and run of a nonce; `None` if its seal is wrong.
    fn read(&self, nonce: &[u8]) -> Option<(u64, u64, u64)> {
        let mut parts = core::str::from_utf8(nonce).ok()?.split('.');
        let mut part = || u64::from_str_radix(parts.next()?, 16).ok();
        let (made, number, run, seal) = (part()?, part()?, part()?, part()?);
        (self.seal(made, number, run) == seal).then_some((made, number, run))
    }

    /// Returns true if this valid nonce was sent to `recipient`.
    pub(super) fn is_of(&self, nonce: &[u8], recipient: Recipient) -> bool {
        let mut parts = core::str::from_utf8(nonce).unwrap_or_default().rsplit('.');
        let mark = parts.next().and_then(|mark| u32::from_str_radix(mark, 16).ok());
        let seal = parts.next().and_then(|seal| u64::from_str_radix(seal, 16).ok());
        matches!((mark, seal), (Some(mark), Some(seal)) if mark == self.mark(seal, recipient))
    }

    /// Returns true if the nonce was made with this key, even if it is expired or used up.
    pub(super) fn is_ours(&self, nonce: &[u8]) -> bool {
        self.read(nonce).is_some()
    }

    /// Accepts a nonce with this count at most once.
    pub(super) fn use_once(&mut self, now: Time, nonce: &[u8], count: u32) -> Freshness {
        let Some((made, number, run)) = self.read(nonce) else { return Freshness::Forged };
        // Neither the clock nor the used counts of another run are known; within a run, no nonce is from the
        // future.
        if run != self.run || made > now.as_millis() + 1 {
            return Freshness::Stale;
        }
        let age = now - Time::from_millis(made);
        let places = self.used.len() as u64;
        let Some(place) = self.used.get_mut((number % places) as usize) else { return Freshness::Stale };
        if age > self.lifetime || count == 0 {
            return Freshness::Stale;
        }
        if place.number != number {
            if made <= place.floor || made < place.made {
                return Freshness::Stale;
            }
            let floor = place.floor.max(place.made);
            *place = Used { number, made, count, before: 0, floor };
            return Freshness::Fresh;
        }
        let used = if count > place.count {
            let gap = count - place.count;
            place.before =
                (place.before.checked_shl(gap).unwrap_or(0)) | 1u32.checked_shl(gap - 1).unwrap_or(0);
            place.count = count;
            false
        } else {
            // Counts too far back to be recorded are treated as used.
            let back = place.count - count;
            let bit = if back == 0 { 0 } else { 1u32.checked_shl(back - 1).unwrap_or(0) };
            let used = bit == 0 || place.before & bit != 0;
            place.before |= bit;
            used
        };
        if used { Freshness::Stale } else { Freshness::Fresh }
    }
}
