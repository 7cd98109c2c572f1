//! Addresses that have proved that they get what is sent to them: a table of fixed size, in which the latest count.

/// Addresses that are remembered, at most.
const PLACES: usize = 1 << 16;
/// Each may stand in so many places.
const WAYS: usize = 2;
/// How long a proof holds: an address may be another's soon.
const HOLDS_MS: u64 = 600_000;

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    mark: u64,
    /// 0 of one that is free.
    until_ms: u64,
}

/// Addresses by their keyed hashes, whole: nobody can tell who meets whom.
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
        // Its own place, or else that of the one that is forgotten first.
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
