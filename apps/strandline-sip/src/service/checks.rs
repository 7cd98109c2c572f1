//! Who sends a request: asked and checked (RFC 3261 section 22).

use core::net::SocketAddr;

use crate::auth::{Asking, Guesser, Sender, Standing, Verdict as Credentials, is_same_origin, subscriber};
use crate::bindings::Locations;
use crate::codec::{Message, Reply, SipUri, StatusCode, Via};
use crate::transaction::Time;

use super::Service;
use super::answered::{Outcome, RequestKey};
use super::incoming::Incoming;
use super::proofs::Scale;
use super::reply::answer_flow;
use super::routing::name_of;
use super::subscriber_queries::Purpose;
use super::{Relay, Settings};

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
    /// The credentials are for another resource.
    OtherResource,
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
        let (source, guesser) = (incoming.flow.peer.ip(), guesser(incoming, &self.settings.relay));
        let sender = Sender { domain: &host, source, guesser, standing: Standing::Unknown };
        let mut verdict = authenticator.check(now, &incoming.message, asking, &sender);
        if verdict == Credentials::Guesses {
            let standing = standing(
                &self.settings,
                &self.locations,
                incoming,
                uri,
                self.epoch_unix_secs + now.as_millis() / 1000,
            );
            if standing != Standing::Unknown {
                let sender = Sender { standing, ..sender };
                verdict = authenticator.check(now, &incoming.message, asking, &sender);
            }
        }
        match verdict {
            Credentials::Guesses => {
                authenticator.refused();
                self.log_refused(now, incoming, uri, "too many wrong passwords");
                Proof::Guesses
            }
            Credentials::OtherResource => {
                self.log_refused(now, incoming, uri, "credentials for another URI");
                Proof::OtherResource
            }
            Credentials::Is { user, asked_here } => {
                // They are made with what was sent there.
                if asked_here && incoming.weighed {
                    self.transactions.balance_mut().prove(incoming.flow.peer.ip());
                }
                let named = uri.user.map(|user| crate::codec::unescape(user));
                if named.is_some_and(|named| named.eq(user.iter().copied())) {
                    Proof::Given
                } else {
                    self.log_refused(now, incoming, uri, "credentials of another user");
                    Proof::OfAnother
                }
            }
            Credentials::LookUp(user) => {
                let who = subscriber(user, &host);
                if self.wait_for(now, incoming, who, Purpose::Proof) { Proof::Waits } else { Proof::TooMany }
            }
            Credentials::Challenge { stale, wrong } => {
                let challenges = authenticator.challenges(now, stale, incoming.flow.peer.ip());
                self.challenge(incoming, asking, &challenges);
                if wrong {
                    self.on_wrong(now, incoming, uri, key);
                }
                Proof::Asked
            }
        }
    }

    /// Wrong credentials: their retransmission is no further guess.
    fn on_wrong(&mut self, now: Time, incoming: &Incoming<'_>, uri: &SipUri<'_>, key: Option<RequestKey>) {
        if let Some(key) = key {
            self.answered.insert(now, key, Outcome::Challenged);
        }
        self.log_refused(now, incoming, uri, "wrong password");
    }

    /// Logs that the sender of a request, who says to be the user of this URI, was refused. Behind an edge it is the phone's address.
    pub(super) fn log_refused(&mut self, now: Time, incoming: &Incoming<'_>, uri: &SipUri<'_>, reason: &str) {
        let source = guesser(incoming, &self.settings.relay).address.ip();
        self.refused_log.log(now, source, uri.user.unwrap_or(&[]), reason);
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
            tracing::debug!(%error, "writing a challenge failed");
        }
    }
}

/// Edges on the way that are looked through for the phone behind them.
const EDGES_MAX: usize = 8;

/// The source that the wrong passwords of a request count for. Behind edges that may send anything it is the phone as the edge's Via
/// tells it (RFC 3261 section 18.2.1, RFC 3581), so that a guesser behind an edge doesn't keep out the other phones there.
fn guesser(incoming: &Incoming<'_>, relay: &Relay) -> Guesser {
    let Incoming { message, essentials, flow, .. } = incoming;
    let is_own_port = message.has_only(&essentials.via) || message.vias().take(2).count() == 1;
    let direct = Guesser { address: flow.peer, is_own_port, edge: None };
    // Who is open for all believes none of them.
    if is_own_port || relay.open || !relay.allows(&flow.peer) {
        return direct;
    }
    let mut last = direct;
    for via in message.vias().skip(1).take(EDGES_MAX) {
        let Some(address) = via.ok().and_then(|via| sent_from(&via)) else { break };
        last = Guesser { address, edge: Some(flow.peer.ip()), ..direct };
        if !relay.allows(&address) {
            break;
        }
    }
    Guesser { is_own_port: is_last(message, &last), ..last }
}

/// Is this the phone that has written the last Via?
fn is_last(message: &Message<'_>, guesser: &Guesser) -> bool {
    let last = message.vias().last().and_then(Result::ok).and_then(|via| sent_from(&via));
    last == Some(guesser.address)
}

/// The address that a request came from at the proxy that has noted it in this Via, or else that it names.
fn sent_from(via: &Via<'_>) -> Option<SocketAddr> {
    let port = via.rport.flatten().or(via.port).unwrap_or(5060);
    Some(SocketAddr::new(via.received.or_else(|| via.host.ip())?, port))
}

/// Is the user whom this URI names registered from where a request comes?
fn standing(
    settings: &Settings,
    locations: &Locations,
    incoming: &Incoming<'_>,
    uri: &SipUri<'_>,
    unix_secs: u64,
) -> Standing {
    let mut aor = Vec::new();
    name_of(settings, uri, &mut aor);
    let peer = incoming.flow.peer;
    let live = || locations.bindings(&aor).iter().filter(|binding| !binding.has_expired(unix_secs));
    if live().any(|binding| binding.flow.peer == peer) {
        Standing::Port
    } else if live().any(|binding| is_same_origin(binding.flow.peer.ip(), peer.ip())) {
        Standing::Address
    } else {
        Standing::Unknown
    }
}
