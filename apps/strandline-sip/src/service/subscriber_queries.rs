//! Requests that wait until somebody has looked for a subscriber.

use std::collections::HashMap;

use crate::auth::{Secret, Subscriber};
use crate::codec::{HeaderName, Index, Message, Method, StatusCode};
use crate::transaction::{Flow, Held, ServerId, Time};

use super::Service;
use super::incoming::Incoming;

/// Requests that may wait.
const WAITING_MAX: usize = 20_000;
/// Requests that may wait for one subscriber.
const EACH_MAX: usize = 16;

/// What a subscriber is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To know whether the request comes from there.
    Proof,
    /// To tell who isn't registered from who doesn't exist.
    Callee,
}

/// A request that waits.
#[derive(Debug)]
struct Waiting {
    purpose: Purpose,
    flow: Flow,
    bytes: Held,
    /// Its transaction, if it has one already.
    server: Option<ServerId>,
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

    /// A request waits until this subscriber is known. False if too many do: half of them at most wait for somebody who is called,
    /// so that phones can register all the same.
    pub(super) fn wait_for(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        who: Subscriber,
        purpose: Purpose,
    ) -> bool {
        let part = if purpose == Purpose::Callee { 2 } else { 1 };
        let lookups = &mut self.lookups;
        let bytes = incoming.message.as_bytes();
        let all = lookups.waiting.get(&who).map_or(&[][..], |all| all);
        if all.iter().any(|waiting| *waiting.bytes == *bytes) {
            // A repetition.
            return true;
        }
        let account = self.transactions.account();
        let has_room = account.has_room_for_new(bytes.len(), 1);
        if lookups.count >= WAITING_MAX / part || all.len() >= EACH_MAX / part || !has_room {
            return false;
        }
        if all.is_empty() {
            lookups.wanted.push(who.clone());
        }
        lookups.count += 1;
        let bytes = account.holder().hold(bytes);
        let server = self.begin_answer(incoming);
        if let Some(server) = server.filter(|_| incoming.essentials.cseq.method == Method::Invite) {
            self.transactions.trying(now, server, &incoming.message);
        }
        let waiting = Waiting { purpose, flow: incoming.flow, bytes, server };
        self.lookups.waiting.entry(who).or_default().push(waiting);
        true
    }

    /// Somebody has looked for a subscriber, who may not exist; or could not look. What has waited for that goes on.
    pub fn looked_up(&mut self, now: Time, who: Subscriber, found: Option<Option<Secret>>) {
        let all = self.lookups.waiting.remove(&who).unwrap_or_default();
        self.lookups.count = self.lookups.count.saturating_sub(all.len());
        let is_nobody = found.as_ref().is_some_and(Option::is_none);
        let is_known = self.authenticator.as_mut().is_some_and(|auth| auth.looked_up(now, who, found));
        for Waiting { purpose, flow, bytes, server } in all {
            if is_known && purpose == Purpose::Proof {
                self.handle(now, flow, &bytes, false);
                continue;
            }
            let (code, later) = match purpose {
                Purpose::Proof => {
                    (StatusCode::SERVICE_UNAVAILABLE, Some((HeaderName::RetryAfter, &b"10"[..])))
                }
                Purpose::Callee if is_nobody => (StatusCode::NOT_FOUND, None),
                // Also if nobody could look: this is not about the server, which others would leave alone after 503.
                Purpose::Callee => (StatusCode::TEMPORARILY_UNAVAILABLE, None),
            };
            let mut index =
                self.index.take().unwrap_or_else(|| Box::new(Index::with_limits(self.settings.message)));
            if let Ok(message) = Message::parse(&bytes, &mut index) {
                match (server, message.essentials()) {
                    (Some(server), Ok(essentials)) => {
                        let incoming = Incoming::new(message, &essentials, flow);
                        self.answer_begun(now, &incoming, server, (code, None, later));
                    }
                    _ => self.answer(&message, flow, code, None, later),
                }
            }
            self.index = Some(index);
        }
    }
}
