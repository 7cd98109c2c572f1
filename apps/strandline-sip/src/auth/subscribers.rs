//! A cache of subscribers from an external table, so that a phone that refreshes its registration needs no
//! lookup. No I/O, no clock.

use core::time::Duration;
use std::collections::HashMap;

use crate::transaction::Time;

use super::users::Secret;

/// How much longer an entry stays valid while the table is unavailable.
const STRETCH: Duration = Duration::from_secs(10);

/// The size and lifetimes of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSettings {
    /// Approximate maximum number of subscribers.
    pub max: usize,
    /// Lifetime of an existing subscriber.
    pub lifetime: Duration,
    /// Lifetime of a negative entry.
    pub unknown: Duration,
}

/// A subscriber: a user name and a domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subscriber {
    /// The user name as in the credentials.
    pub user: Box<[u8]>,
    /// The domain in lowercase.
    pub domain: Box<[u8]>,
}

#[derive(Debug, Clone)]
struct Entry {
    secret: Option<Secret>,
    until: Time,
}

/// The cached subscribers.
#[derive(Debug)]
pub struct Subscribers {
    settings: CacheSettings,
    /// Recently used entries. Once they reach half of the maximum, they replace `before`.
    recent: HashMap<Subscriber, Entry>,
    before: HashMap<Subscriber, Entry>,
}

impl Subscribers {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(settings: CacheSettings) -> Self {
        Self { settings, recent: HashMap::new(), before: HashMap::new() }
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.recent.len() + self.before.len()
    }

    /// Returns true if the cache is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn keep(&mut self, who: Subscriber, entry: Entry) {
        if self.recent.len() >= self.settings.max.div_ceil(2) {
            self.before = core::mem::take(&mut self.recent);
        }
        self.before.remove(&who);
        self.recent.insert(who, entry);
    }

    /// The secret of a subscriber, or `Some(None)` if the subscriber doesn't exist. `None` if a lookup is
    /// needed.
    pub(super) fn known(&mut self, now: Time, who: &Subscriber) -> Option<Option<&Secret>> {
        if !self.recent.contains_key(who) {
            let (who, entry) = self.before.remove_entry(who)?;
            self.keep(who, entry);
        }
        let entry = self.recent.get(who).filter(|entry| now < entry.until)?;
        Some(entry.secret.as_ref())
    }

    /// Stores the result of a lookup.
    pub(super) fn found(&mut self, now: Time, who: Subscriber, secret: Option<Secret>) {
        let lifetime = if secret.is_some() { self.settings.lifetime } else { self.settings.unknown };
        self.keep(who, Entry { secret, until: now + lifetime });
    }

    /// Handles a failed lookup by extending the current entry. Returns false if there is none.
    pub(super) fn not_found(&mut self, now: Time, who: &Subscriber) -> bool {
        match self.recent.get_mut(who).or_else(|| self.before.get_mut(who)) {
            None => false,
            Some(entry) => {
                entry.until = entry.until.max(now + STRETCH);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests;
