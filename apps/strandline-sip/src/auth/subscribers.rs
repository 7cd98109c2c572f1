//! Subscribers in a table that somebody else looks into: what it said of late is kept here, so that a phone that renews its
//! registration needs no look. No I/O, no clock.

use core::time::Duration;
use std::collections::HashMap;

use crate::transaction::Time;

use super::users::Secret;

/// For how long what is known goes on being used while the table can't be looked into.
const STRETCH: Duration = Duration::from_secs(10);

/// How much is kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSettings {
    /// Subscribers at most, about.
    pub max: usize,
    /// How long one is known.
    pub lifetime: Duration,
    /// How long it is known that there is no such subscriber.
    pub unknown: Duration,
}

/// A subscriber: its name and its domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subscriber {
    /// As the credentials have it.
    pub user: Box<[u8]>,
    /// In small letters.
    pub domain: Box<[u8]>,
}

#[derive(Debug, Clone)]
struct Entry {
    secret: Option<Secret>,
    until: Time,
}

/// What is known of subscribers.
#[derive(Debug)]
pub struct Subscribers {
    settings: CacheSettings,
    /// Those that were used of late; when they are half of what may be, they become those that were used before.
    recent: HashMap<Subscriber, Entry>,
    before: HashMap<Subscriber, Entry>,
}

impl Subscribers {
    /// Nobody is known.
    #[must_use]
    pub fn new(settings: CacheSettings) -> Self {
        Self { settings, recent: HashMap::new(), before: HashMap::new() }
    }

    /// How many are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.recent.len() + self.before.len()
    }

    /// Nobody is.
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

    /// What is known of a subscriber, who may not exist; `None` if somebody has to look.
    pub(super) fn known(&mut self, now: Time, who: &Subscriber) -> Option<Option<&Secret>> {
        if !self.recent.contains_key(who) {
            let (who, entry) = self.before.remove_entry(who)?;
            self.keep(who, entry);
        }
        let entry = self.recent.get(who).filter(|entry| now < entry.until)?;
        Some(entry.secret.as_ref())
    }

    /// Somebody has looked.
    pub(super) fn found(&mut self, now: Time, who: Subscriber, secret: Option<Secret>) {
        let lifetime = if secret.is_some() { self.settings.lifetime } else { self.settings.unknown };
        self.keep(who, Entry { secret, until: now + lifetime });
    }

    /// Nobody could look: what is known stays so for a while. False if nothing is.
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
