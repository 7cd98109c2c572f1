//! Access: whether a request comes from the user that it names (RFC 3261 section 22).

use core::net::SocketAddr;

use crate::auth::{
    Authenticator, Challenger, GuessCounters, Guesser, Secret, Sender, Standing, Subscriber,
    Verdict as Credentials, subscriber,
};
use crate::codec::{Message, SipUri, StatusCode, Via, unescape};
use crate::transaction::{Protocol, Time};

use super::answered_requests::{Answered, Outcome, RequestKey};
use super::incoming::{Incoming, Rejection};
use super::refusal_log::RefusedLog;
use super::settings::Relay;
use super::setup::Setup;
use super::subscriber_queries::{SubscriberQueries, Waiting};

/// The credentials are another user's.
pub(super) const NOT_YOURS: Rejection = (StatusCode::FORBIDDEN, Some("Not Your Address"));
/// The credentials are for another request URI (RFC 7616 section 3.4.6).
const OTHER_RESOURCE: Rejection = (StatusCode::BAD_REQUEST, Some("Digest URI Is Not The Request URI"));
/// The sender has sent too many wrong passwords.
const GUESSES: Rejection = (StatusCode::FORBIDDEN, Some("Too Many Wrong Passwords"));

/// The claim of a request to come from the user of a URI.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim<'a> {
    pub(super) uri: &'a SipUri<'a>,
    pub(super) challenger: Challenger,
    /// The key of its outcome, if it has credentials.
    pub(super) key: Option<RequestKey>,
}

/// The result of checking a claim.
#[derive(Debug)]
pub(super) enum Checked {
    /// The request is from the user.
    Proved,
    /// Authentication is off.
    NotNeeded,
    /// Challenge the sender with these values.
    Challenge(Vec<String>),
    /// The credentials are another user's.
    OtherUser,
    /// Undecided until this subscriber has been looked up.
    LookUp(Subscriber),
    /// The request is refused.
    Refused(Rejection),
}

/// The result of asking whether a user without bindings exists.
#[derive(Debug)]
pub(super) enum Existence {
    Exists,
    Absent,
    /// Unknown until this subscriber has been looked up.
    LookUp(Subscriber),
}

/// Authentication, and its recent outcomes.
#[derive(Debug)]
pub struct Access {
    /// `None` if authentication is off.
    authenticator: Option<Authenticator>,
    /// Outcomes of requests with credentials, for retransmissions.
    answered: Answered,
    refused_log: RefusedLog,
    /// Requests that wait for a subscriber.
    pub(super) queries: SubscriberQueries,
}

impl Access {
    /// Without authentication.
    pub(super) fn new(answered: Answered) -> Self {
        Self {
            authenticator: None,
            answered,
            refused_log: RefusedLog::default(),
            queries: SubscriberQueries::default(),
        }
    }

    /// Sets the authenticator; `None` turns authentication off. Clients with a nonce of the previous one are
    /// challenged again.
    pub fn set_authenticator(&mut self, authenticator: Option<Authenticator>) {
        let last = self.authenticator.take();
        self.authenticator = authenticator.map(|authenticator| authenticator.inherit(last));
    }

    /// Counters of wrong passwords.
    #[must_use]
    pub fn guesses(&self) -> GuessCounters {
        self.authenticator.as_ref().map_or_else(GuessCounters::default, Authenticator::guesses)
    }

    /// Returns, once, the subscribers to be looked up: see
    /// [`Service::handle_subscriber`](super::Service::handle_subscriber).
    pub fn take_wanted(&mut self) -> Vec<Subscriber> {
        self.queries.take_wanted()
    }

    /// Number of requests that wait for a subscriber.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.queries.len()
    }

    /// The key of a request whose credentials are checked; `None` if it has none.
    pub(super) fn key(&self, incoming: &Incoming<'_>, challenger: Challenger) -> Option<RequestKey> {
        self.authenticator.as_ref()?;
        self.answered.key(incoming, challenger)
    }

    /// The recorded outcome of a request, if it was handled before.
    pub(super) fn outcome(&self, key: Option<RequestKey>) -> Option<Outcome> {
        self.answered.get(key?)
    }

    /// Records the outcome of a request.
    pub(super) fn set_outcome(&mut self, now: Time, key: Option<RequestKey>, outcome: Outcome) {
        if let Some(key) = key {
            self.answered.insert(now, key, outcome);
        }
    }

    /// Checks whether a request comes from a user. `standing`: whether the user is registered from the same
    /// source. Returns also whether the credentials prove that the sender receives what is sent to its
    /// address.
    pub(super) fn check(
        &mut self,
        now: Time,
        setup: &Setup,
        incoming: &Incoming<'_>,
        claim: Claim<'_>,
        standing: impl FnOnce() -> Standing,
    ) -> (Checked, bool) {
        let Claim { uri, challenger, key } = claim;
        let before = self.outcome(key);
        let Some(authenticator) = &mut self.authenticator else { return (Checked::NotNeeded, false) };
        let guesser = guesser(incoming, &setup.settings.relay);
        if before == Some(Outcome::Challenged) {
            // A retransmission of wrong credentials doesn't count as another guess.
            return (Checked::Challenge(authenticator.challenges(now, false, &guesser)), false);
        }
        let host = setup.settings.directory.domain_of(&uri.host);
        // An edge may have received the request over UDP. That an address has proved that it receives what is
        // sent there doesn't help: this packet may be from elsewhere. A listed proxy that authenticates itself may send
        // from several addresses in turn.
        let is_listed = setup.settings.relay.names(&incoming.flow.peer);
        let may_be_spoofed = guesser.edge.is_some() || (!incoming.flow.protocol.is_reliable() && !is_listed);
        let sender = Sender { domain: &host, guesser, may_be_spoofed, standing: Standing::Unknown };
        let mut verdict = authenticator.check(now, &incoming.message, challenger, &sender);
        if verdict == Credentials::Guesses {
            let standing = standing();
            if standing != Standing::Unknown {
                let sender = Sender { standing, ..sender };
                verdict = authenticator.check(now, &incoming.message, challenger, &sender);
            }
        }
        let mut proves_address = false;
        let (checked, logged) = match verdict {
            Credentials::Guesses => {
                authenticator.refused();
                (Checked::Refused(GUESSES), Some("too many wrong passwords"))
            }
            Credentials::OtherResource => {
                (Checked::Refused(OTHER_RESOURCE), Some("credentials for another URI"))
            }
            Credentials::Is { user, nonce_sent_here } => {
                // The credentials use a nonce that was sent to this address.
                proves_address = nonce_sent_here;
                let named = uri.user.map(|user| unescape(user));
                match named.is_some_and(|named| named.eq(user.iter().copied())) {
                    true => (Checked::Proved, None),
                    false => (Checked::OtherUser, Some("credentials of another user")),
                }
            }
            Credentials::LookUp(user) => (Checked::LookUp(subscriber(user, &host)), None),
            Credentials::Challenge { stale, wrong } => {
                let challenges = authenticator.challenges(now, stale, &guesser);
                if wrong {
                    // Their retransmission doesn't count as another guess.
                    self.set_outcome(now, key, Outcome::Challenged);
                }
                (Checked::Challenge(challenges), wrong.then_some("wrong password"))
            }
        };
        if let Some(reason) = logged {
            // Behind an edge proxy this is the phone's address.
            self.refused_log.log(now, guesser.address.ip(), uri.user.unwrap_or(&[]), reason);
        }
        (checked, proves_address)
    }

    /// Whether a user without bindings exists.
    pub(super) fn existence(&mut self, now: Time, setup: &Setup, uri: &SipUri<'_>) -> Existence {
        let (Some(authenticator), Some(user)) = (&mut self.authenticator, uri.user) else {
            return Existence::Absent;
        };
        let user: Vec<u8> = unescape(user).collect();
        let host = setup.settings.directory.domain_of(&uri.host);
        match authenticator.knows(now, &user, &host) {
            Some(true) => Existence::Exists,
            Some(false) => Existence::Absent,
            None => Existence::LookUp(subscriber(&user, &host)),
        }
    }

    /// Handles the result of a look-up. Returns the requests that waited for it, and whether the subscriber
    /// was found.
    pub(super) fn on_subscriber(
        &mut self,
        now: Time,
        who: Subscriber,
        found: Option<Option<Secret>>,
    ) -> (Vec<Waiting>, bool) {
        let waiting = self.queries.take(&who);
        let is_known =
            self.authenticator.as_mut().is_some_and(|auth| auth.handle_subscriber(now, who, found));
        (waiting, is_known)
    }
}

/// Maximum number of edge proxies whose Vias are read to find the phone behind them.
const EDGES_MAX: usize = 8;

/// The source that is charged for a request's wrong password. For a trusted edge proxy this is the phone's
/// address in its Via (RFC 3261 section 18.2.1, RFC 3581), so that one guesser does not lock out the other
/// phones behind that proxy.
fn guesser(incoming: &Incoming<'_>, relay: &Relay) -> Guesser {
    let Incoming { message, essentials, flow, .. } = incoming;
    let is_own_port = message.has_only(&essentials.via) || message.vias().take(2).count() == 1;
    let direct = Guesser { address: flow.peer, is_own_port, edge: None, call: 0 };
    // An open relay trusts no Via.
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

/// Whether a guesser is the phone that wrote the last Via.
fn is_last(message: &Message<'_>, guesser: &Guesser) -> bool {
    let last = message.vias().last().and_then(Result::ok).and_then(|via| sent_from(&via));
    last == Some(guesser.address)
}

/// The address in the `received` parameter of this Via, or else its sent-by.
fn sent_from(via: &Via<'_>) -> Option<SocketAddr> {
    let port = via.rport.flatten().or(via.port).unwrap_or(Protocol::Udp.default_port());
    Some(SocketAddr::new(via.received.or_else(|| via.host.ip())?, port))
}
