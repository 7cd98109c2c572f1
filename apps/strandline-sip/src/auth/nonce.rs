//! Nonces that are not stored until they are used, and never taken twice for the same count.

use core::hash::Hasher;
use core::net::IpAddr;
use core::time::Duration;

use siphasher::sip::SipHasher24;

use crate::transaction::Time;

/// What a nonce is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    /// It is ours, and this count was not used.
    Fresh,
    /// It is ours, and too old or used up.
    Stale,
    /// It isn't ours.
    Forged,
}

/// What is known of the last nonce that came to this place.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    number: u64,
    made: u64,
    /// The highest count, and which of the 32 before it were used.
    count: u32,
    before: u32,
    /// Other nonces are taken only if they were made after this.
    floor: u64,
}

/// Makes nonces, and remembers which counts of them were used: in a table of fixed size. If two nonces in use meet in one
/// place of it, the older becomes stale: its phone gets a new one.
#[derive(Debug)]
pub struct Nonces {
    hasher: SipHasher24,
    /// Stands in each nonce.
    run: u64,
    next: u64,
    lifetime: Duration,
    used: Vec<Used>,
}

impl Nonces {
    /// With a random key. `places` is how many nonces can be in use at once: 40 bytes each.
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

    /// Others with the same key make nonces too: other nodes, and earlier runs of this one. Theirs are told from these by a random
    /// number for each run, and are stale here, since what was used of them is known there, or forgotten.
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

    /// Of the address that a nonce is sent to.
    fn mark(&self, seal: u64, to: IpAddr) -> u32 {
        let mut hasher = self.hasher;
        hasher.write_u64(seal);
        match to.to_canonical() {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
        hasher.finish() as u32
    }

    /// A new one, for whoever gets what is sent to this address. Others may use it as well: phones move.
    #[must_use]
    pub fn make(&mut self, now: Time, to: IpAddr) -> String {
        let (made, number, run) = (now.as_millis() + 1, self.next, self.run);
        self.next += 1;
        let seal = self.seal(made, number, run);
        format!("{made:x}.{number:x}.{run:x}.{seal:016x}.{:08x}", self.mark(seal, to))
    }

    /// When it was made, its number and its run.
    fn read(&self, nonce: &[u8]) -> Option<(u64, u64, u64)> {
        let mut parts = core::str::from_utf8(nonce).ok()?.split('.');
        let mut part = || u64::from_str_radix(parts.next()?, 16).ok();
        let (made, number, run, seal) = (part()?, part()?, part()?, part()?);
        (self.seal(made, number, run) == seal).then_some((made, number, run))
    }

    /// Was this one, which is ours, sent to this address?
    pub(super) fn is_of(&self, nonce: &[u8], address: IpAddr) -> bool {
        let mut parts = core::str::from_utf8(nonce).unwrap_or_default().rsplit('.');
        let mark = parts.next().and_then(|mark| u32::from_str_radix(mark, 16).ok());
        let seal = parts.next().and_then(|seal| u64::from_str_radix(seal, 16).ok());
        matches!((mark, seal), (Some(mark), Some(seal)) if mark == self.mark(seal, address))
    }

    /// Is this one that was made with our key, whatever has become of it?
    pub(super) fn is_ours(&self, nonce: &[u8]) -> bool {
        self.read(nonce).is_some()
    }

    /// Takes a nonce with this count, once.
    pub(super) fn use_once(&mut self, now: Time, nonce: &[u8], count: u32) -> Freshness {
        let Some((made, number, run)) = self.read(nonce) else { return Freshness::Forged };
        // Of another run neither the clock nor what was used is known; in one run none is made later than now.
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
            // Those that are too far back to be remembered count as used.
            let back = place.count - count;
            let bit = if back == 0 { 0 } else { 1u32.checked_shl(back - 1).unwrap_or(0) };
            let used = bit == 0 || place.before & bit != 0;
            place.before |= bit;
            used
        };
        if used { Freshness::Stale } else { Freshness::Fresh }
    }
}
