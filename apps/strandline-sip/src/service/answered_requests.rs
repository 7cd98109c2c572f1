//! The outcomes of requests with credentials that are answered without a transaction, for their
//! retransmissions (RFC 3261 section 17.2.2).
//!
//! A nonce count is accepted once, so a retransmission would be challenged as if its nonce were stale, and
//! the challenge could arrive before the response to the first copy. The outcome is stored, not the response,
//! which is written again from the bindings: a retransmission changes nothing, however late it arrives.

use core::hash::{Hash, Hasher};
use std::collections::HashMap;

use siphasher::sip::SipHasher13;

use crate::auth::Challenger;
use crate::codec::HeaderName;
use crate::registrar::{Refusal, Registered};
use crate::transaction::Time;

use super::incoming::Incoming;

/// Maximum number of outcomes in each of the two tables, which take 9 MB together. With more of them in 32 s
/// each is stored for a shorter time.
const EACH_MAX: usize = (1 << 17) / 8 * 7;
/// How long a table is filled, milliseconds: 64 T1, for which requests are retransmitted. An outcome is
/// stored for that long at least.
const TURN_MS: u64 = 32_000;

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The credentials were wrong.
    Challenged,
    /// The credentials were right. All other checks are repeated.
    Proved,
    /// A REGISTER was answered with 200.
    Bound,
    /// A REGISTER was refused.
    Refused(Refusal),
}

impl From<Registered> for Outcome {
    fn from(registered: Registered) -> Self {
        match registered {
            Registered::Changed | Registered::Same => Self::Bound,
            Registered::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

/// Identifies a request: a keyed hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RequestKey(u64);

/// Recent outcomes.
#[derive(Debug)]
pub(super) struct Answered {
    hasher: SipHasher13,
    current: HashMap<RequestKey, Outcome>,
    last: HashMap<RequestKey, Outcome>,
    turned_ms: u64,
}

impl Answered {
    /// `hasher` must have a random key.
    pub(super) fn new(hasher: SipHasher13) -> Self {
        Self { hasher, current: HashMap::new(), last: HashMap::new(), turned_ms: 0 }
    }

    /// The key of a request with credentials; `None` if it has none. Requests with one key come from one
    /// address with the same Call-ID, CSeq, users, contacts and credentials. The branch and the port may
    /// differ, because a retransmission may take another path.
    pub(super) fn key(&self, incoming: &Incoming<'_>, challenger: Challenger) -> Option<RequestKey> {
        let Incoming { message, essentials, flow, .. } = incoming;
        if !message.has(challenger.credentials()) {
            return None;
        }
        let mut hasher = self.hasher;
        hasher.write(b"answered");
        flow.peer.ip().to_canonical().hash(&mut hasher);
        let mut part = |part: &[u8]| part.hash(&mut hasher);
        part(message.request_line().map_or(&[], |line| line.uri));
        part(essentials.cseq.method.as_bytes());
        part(&essentials.cseq.number.to_le_bytes());
        part(essentials.call_id);
        for name in [HeaderName::From, HeaderName::To] {
            part(message.first_value(name));
        }
        for name in [challenger.credentials(), HeaderName::Contact, HeaderName::Expires] {
            message.lines(name).for_each(|line| part(line.value()));
            part(b"");
        }
        Some(RequestKey(hasher.finish()))
    }

    /// Stores the outcome of a request.
    pub(super) fn insert(&mut self, now: Time, key: RequestKey, outcome: Outcome) {
        if now.as_millis() > self.turned_ms + TURN_MS || self.current.len() >= EACH_MAX {
            self.turned_ms = now.as_millis();
            core::mem::swap(&mut self.current, &mut self.last);
            self.current.clear();
        }
        self.current.insert(key, outcome);
    }

    /// The recorded outcome of a request, if it was handled before.
    pub(super) fn get(&self, key: RequestKey) -> Option<Outcome> {
        self.current.get(&key).or_else(|| self.last.get(&key)).copied()
    }
}

#[cfg(test)]
mod tests;
