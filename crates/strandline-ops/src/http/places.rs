//! Limits on the number of HTTP connections, in total and for each source. A connection without a request
//! makes way for a new one, so that silent connections can't lock out others.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Network;

/// Maximum number of connections in total, and from one IPv4 address or IPv6 /64.
const PLACES: usize = 64;
const PLACES_OF_SOURCE: usize = 16;

/// Minimum age of a connection that is closed because the system has no descriptors left. The request of a younger one
/// may be on its way.
pub(super) const AGE_MIN: Duration = Duration::from_millis(500);

/// The place of a connection.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    evicted: Rc<Notify>,
}

impl Place {
    /// Waits until another connection needs the place.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

#[derive(Debug)]
struct Taken {
    source: Network,
    since: Instant,
    /// True once a request has arrived.
    has_request: bool,
    evicted: Rc<Notify>,
}

/// The places of a listening socket by number, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Places {
    next: u64,
    taken: BTreeMap<u64, Taken>,
}

impl Places {
    /// Gives a connection that is new `now` a place, if necessary that of the oldest connection without a
    /// request. Returns `None` if all connections have requests.
    pub(super) fn take(&mut self, source: Network, now: Instant) -> Option<Place> {
        let of_source = |taken: &Taken| taken.source == source;
        if self.taken.values().filter(|taken| of_source(taken)).count() >= PLACES_OF_SOURCE {
            self.evict(of_source).then_some(())?;
        } else if self.taken.len() >= PLACES {
            self.evict(|_| true).then_some(())?;
        }
        let (number, evicted) = (self.next, Rc::new(Notify::new()));
        self.next += 1;
        self.taken
            .insert(number, Taken { source, since: now, has_request: false, evicted: Rc::clone(&evicted) });
        Some(Place { number, evicted })
    }

    /// Records that a request has arrived over the connection.
    pub(super) fn on_request(&mut self, place: &Place) {
        if let Some(taken) = self.taken.get_mut(&place.number) {
            taken.has_request = true;
        }
    }

    /// Frees the place of a connection that has ended.
    pub(super) fn leave(&mut self, place: &Place) {
        self.taken.remove(&place.number);
    }

    /// Closes the oldest connection without a request, unless that may be on its way.
    pub(super) fn evict_oldest(&mut self, now: Instant) {
        self.evict(|taken| now.saturating_duration_since(taken.since) >= AGE_MIN);
    }

    fn evict(&mut self, may: impl Fn(&Taken) -> bool) -> bool {
        let oldest = self.taken.iter().find(|(_, taken)| !taken.has_request && may(taken));
        let Some(number) = oldest.map(|(number, _)| *number) else { return false };
        if let Some(taken) = self.taken.remove(&number) {
            taken.evicted.notify_one();
        }
        true
    }
}

#[cfg(test)]
mod tests;
