//! Addresses that have proved that they receive what is sent to them, in a table of fixed size that keeps the
//! latest.

/// Maximum number of addresses.
const PLACES: usize = 1 << 16;
/// Number of slots in which an address may be stored.
const WAYS: usize = 2;
/// How long a proof is valid, in milliseconds; an address may soon belong to somebody else.
const HOLDS_MS: u64 = 600_000;

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    mark: u64,
    /// The time at which the proof expires; 0 for a free slot.
    until_ms: u64,
}

/// A set of addresses by their full keyed hashes, so that nobody can cause collisions.
#[derive(Debug)]
pub(super) struct Proven {
    places: Vec<Place>,
}

const fn first(mark: u64) -> usize {
    mark as usize % (PLACES / WAYS) * WAYS
}

impl Proven {
    pub(super) fn new() -> Self {
        Self { places: vec![Place::default(); PLACES] }
    }

    pub(super) fn insert(&mut self, mark: u64, now_ms: u64) {
        let at = first(mark);
        let places = self.places.get_mut(at..at + WAYS).unwrap_or(&mut []);
        // Uses the slot of the address itself, or else the one that expires first.
        let key = |place: &&mut Place| if place.mark == mark { 0 } else { place.until_ms + 1 };
        if let Some(place) = places.iter_mut().min_by_key(key) {
            *place = Place { mark, until_ms: now_ms + HOLDS_MS };
        }
    }

    pub(super) fn contains(&self, mark: u64, now_ms: u64) -> bool {
        let at = first(mark);
        let places = self.places.get(at..at + WAYS).unwrap_or(&[]);
        places.iter().any(|place| place.mark == mark && place.until_ms > now_ms)
    }
}
