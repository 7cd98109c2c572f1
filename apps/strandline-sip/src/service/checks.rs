//! Who sends a request: asked and checked (RFC 3261 section 22).

use crate::auth::{Asking, Verdict as Credentials, subscriber};
use crate::codec::{Reply, SipUri, StatusCode};
use crate::transaction::Time;

use super::Service;
use super::answered::{Outcome, RequestKey};
use super::incoming::Incoming;
use super::lookups::Purpose;
use super::proofs::Scale;
use super::reply::answer_flow;

/// What comes of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The request is from who it says.
    Given,
    /// Nobody is asked.
    NotNeeded,
    /// A challenge was sent.
    Asked,
    /// The credentials are another user's.
    OfAnother,
    /// The request waits until somebody has looked for the user.
    Waits,
    /// Too many wait for that.
    TooMany,
    /// There were too many wrong passwords.
    Guesses,
}

impl Service {
    /// The key of a request whose credentials are checked.
    pub(super) fn answered_key(&self, incoming: &Incoming<'_>, asking: Asking) -> Option<RequestKey> {
        self.authenticator.as_ref()?;
        self.answered.key(incoming, asking)
    }

    /// Is the request from the user whom this URI names? `key` is that of its outcome.
    pub(super) fn prove(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        uri: &SipUri<'_>,
        asking: Asking,
        key: Option<RequestKey>,
    ) -> Proof {
        let Some(authenticator) = &mut self.authenticator else { return Proof::NotNeeded };
        if key.and_then(|key| self.answered.get(key)) == Some(Outcome::Challenged) {
            // A retransmission of wrong credentials is no further guess.
            let challenges = authenticator.challenges(now, false, incoming.flow.peer.ip());
            self.challenge(incoming, asking, &challenges);
            return Proof::Asked;
        }
        let host = self.settings.directory.domain_of(&uri.host);
        let from = (&host, incoming.flow.peer.ip());
        match authenticator.check(now, &incoming.message, asking, from) {
            Credentials::Guesses => Proof::Guesses,
            Credentials::Is { user, asked_here } => {
                // They are made with what was sent there.
                if asked_here && incoming.weighed {
                    self.transactions.balance_mut().prove(incoming.flow.peer.ip());
                }
                let named = uri.user.map(|user| crate::codec::unescape(user));
                if named.is_some_and(|named| named.eq(user.iter().copied())) {
                    Proof::Given
                } else {
                    Proof::OfAnother
                }
            }
            Credentials::LookUp(user) => {
                let who = subscriber(user, &host);
                if self.wait_for(now, incoming, who, Purpose::Proof) { Proof::Waits } else { Proof::TooMany }
            }
            Credentials::Challenge { stale, wrong } => {
                if let Some(key) = key.filter(|_| wrong) {
                    self.answered.insert(now, key, Outcome::Challenged);
                }
                let challenges = authenticator.challenges(now, stale, incoming.flow.peer.ip());
                self.challenge(incoming, asking, &challenges);
                Proof::Asked
            }
        }
    }

    fn challenge(&mut self, incoming: &Incoming<'_>, asking: Asking, challenges: &[String]) {
        let code = match asking {
            Asking::Server => StatusCode::UNAUTHORIZED,
            Asking::Proxy => StatusCode::PROXY_AUTHENTICATION_REQUIRED,
        };
        let to = answer_flow(incoming.flow, Some(&incoming.essentials.via));
        let tag = self.tag(&incoming.message, &incoming.flow);
        let reply = Reply { to_tag: Some(&tag), source: Some(incoming.flow.peer), ..Reply::new(code) };
        let mut scale = Scale::new(!self.is_proven(&incoming.flow), &mut self.transactions, &incoming.flow);
        let written = self.out.write(to, None, |out| {
            let start = out.len();
            let mut writer = reply.write(&incoming.message, out);
            for challenge in challenges {
                writer.header(asking.challenge(), challenge.as_bytes());
            }
            writer.finish(b"")?;
            scale.weigh(out.len() - start)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "a challenge can't be written");
        }
    }
}
