//! Requests that wait until a subscriber has been looked up in the store. All of it is bounded.

use std::collections::HashMap;

use crate::auth::Subscriber;
use crate::transaction::{Flow, Held, ServerId};

/// Maximum number of requests that wait.
const WAITING_MAX: usize = 20_000;
/// Maximum number of requests that wait for one subscriber.
const EACH_MAX: usize = 16;

/// Why a subscriber is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To authenticate a request of the subscriber.
    Proof,
    /// To distinguish a callee without bindings from one that doesn't exist.
    Callee,
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) purpose: Purpose,
    pub(super) flow: Flow,
    pub(super) bytes: Held,
    /// Its transaction, if it has one already.
    pub(super) server: Option<ServerId>,
}

/// Whether a request may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// The request may wait.
    Admitted,
    /// The request is a retransmission of one that waits.
    Waits,
    /// Too many requests wait.
    Full,
}

/// Subscribers to be looked up, and the requests that wait for them.
#[derive(Debug, Default)]
pub(super) struct SubscriberQueries {
    waiting: HashMap<Subscriber, Vec<Waiting>>,
    count: usize,
    wanted: Vec<Subscriber>,
}

impl SubscriberQueries {
    /// Returns, once, the subscribers to be looked up.
    pub(super) fn take_wanted(&mut self) -> Vec<Subscriber> {
        core::mem::take(&mut self.wanted)
    }

    /// Number of requests that wait.
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Whether a request may wait for a subscriber. Half of the places at most are for callees, so that
    /// phones can still register.
    pub(super) fn admit(
        &self,
        who: &Subscriber,
        request: &[u8],
        purpose: Purpose,
        has_room: bool,
    ) -> Admission {
        let part = if purpose == Purpose::Callee { 2 } else { 1 };
        let all = self.waiting.get(who).map_or(&[][..], |all| all);
        if all.iter().any(|waiting| *waiting.bytes == *request) {
            return Admission::Waits;
        }
        if self.count >= WAITING_MAX / part || all.len() >= EACH_MAX / part || !has_room {
            return Admission::Full;
        }
        Admission::Admitted
    }

    /// Adds a request that was admitted.
    pub(super) fn push(&mut self, who: Subscriber, waiting: Waiting) {
        let all = self.waiting.entry(who.clone()).or_default();
        if all.is_empty() {
            self.wanted.push(who);
        }
        all.push(waiting);
        self.count += 1;
    }

    /// Removes and returns the requests that wait for a subscriber.
    pub(super) fn take(&mut self, who: &Subscriber) -> Vec<Waiting> {
        let all = self.waiting.remove(who).unwrap_or_default();
        self.count = self.count.saturating_sub(all.len());
        all
    }
}
