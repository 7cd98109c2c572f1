//! Requests that wait until somebody has looked for a subscriber.

use std::collections::HashMap;

use crate::auth::{Secret, Subscriber};
use crate::codec::{HeaderName, Index, Message, StatusCode};
use crate::transaction::{Flow, Held, Time};

use super::Service;
use super::incoming::Incoming;

/// Requests that may wait.
const WAITING_MAX: usize = 20_000;
/// Requests that may wait for one subscriber.
const EACH_MAX: usize = 16;

/// A request that waits.
#[derive(Debug)]
struct Waiting {
    flow: Flow,
    bytes: Held,
}

/// Who is to be looked for, and what waits for that.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    waiting: HashMap<Subscriber, Vec<Waiting>>,
    count: usize,
    wanted: Vec<Subscriber>,
}

impl Service {
    /// Those to be looked for, each once, until [`looked_up`](Self::looked_up) tells what was found.
    pub fn wanted_subscribers(&mut self) -> Vec<Subscriber> {
        core::mem::take(&mut self.lookups.wanted)
    }

    /// How many requests wait until somebody has looked for a subscriber.
    #[must_use]
    pub const fn waiting_for_subscribers(&self) -> usize {
        self.lookups.count
    }

    /// A request waits until this subscriber is known. False if too many do.
    pub(super) fn wait_for(&mut self, incoming: &Incoming<'_>, who: Subscriber) -> bool {
        let lookups = &mut self.lookups;
        let bytes = incoming.message.as_bytes();
        let all = lookups.waiting.get(&who).map_or(&[][..], |all| all);
        if all.iter().any(|waiting| *waiting.bytes == *bytes) {
            // A repetition.
            return true;
        }
        let account = self.transactions.account();
        if lookups.count >= WAITING_MAX || all.len() >= EACH_MAX || !account.has_room_for_new(bytes.len(), 1)
        {
            return false;
        }
        if all.is_empty() {
            lookups.wanted.push(who.clone());
        }
        lookups.count += 1;
        let waiting = Waiting { flow: incoming.flow, bytes: account.holder().hold(bytes) };
        lookups.waiting.entry(who).or_default().push(waiting);
        true
    }

    /// Somebody has looked for a subscriber, who may not exist; or could not look. What has waited for that goes on.
    pub fn looked_up(&mut self, now: Time, who: Subscriber, found: Option<Option<Secret>>) {
        let all = self.lookups.waiting.remove(&who).unwrap_or_default();
        self.lookups.count = self.lookups.count.saturating_sub(all.len());
        let is_known = self.authenticator.as_mut().is_some_and(|auth| auth.looked_up(now, who, found));
        for Waiting { flow, bytes } in all {
            if is_known {
                self.handle(now, flow, &bytes, false);
                continue;
            }
            let mut index =
                self.index.take().unwrap_or_else(|| Box::new(Index::with_limits(self.settings.message)));
            if let Ok(message) = Message::parse(&bytes, &mut index) {
                let later = Some((HeaderName::RetryAfter, &b"10"[..]));
                self.answer(&message, flow, StatusCode::SERVICE_UNAVAILABLE, None, later);
            }
            self.index = Some(index);
        }
    }
}
