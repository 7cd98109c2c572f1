//! Digest authentication (RFC 7616, RFC 8760, RFC 3261 section 22). No I/O, no clock.
//!
//! A nonce contains its time and a seal, so nothing is stored when a challenge is sent. Once a nonce is used,
//! a table of fixed size records its counts, so that the same credentials are never accepted twice.

mod digest;
mod domain;
mod guesses;
mod nonce;
mod resource;
mod subscribers;
mod users;

use crate::codec::{Auth, HeaderName, Host, Message, Method};
use crate::transaction::Time;

pub use digest::{Algorithm, response};
use domain::domain_name;
use guesses::Guesses;
pub use guesses::{GuessCounters, Guesser, Standing, is_same_origin};
use nonce::Freshness;
pub use nonce::{Nonces, Recipient};
pub use subscribers::{CacheSettings, Subscriber, Subscribers};
pub use users::{Secret, Users, UsersError};

/// The outcome of checking credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The credentials are right.
    Is {
        /// The authenticated user.
        user: &'a [u8],
        /// True if the nonce was sent to the source address of the request, which proves that the sender
        /// receives there.
        nonce_sent_here: bool,
    },
    /// The credentials are missing or wrong, and a challenge is due. If `stale` is set, a new nonce may be all
    /// that is needed, so the phone needn't ask its user.
    Challenge {
        /// The password was right, but the nonce is expired or used up; or the password wasn't checked, because
        /// the nonce was sent to another address.
        stale: bool,
        /// The response to one of this server's nonces was wrong, which counts as a guess.
        wrong: bool,
    },
    /// The user must be looked up first.
    LookUp(&'a [u8]),
    /// The source has sent too many wrong passwords; the credentials were not checked.
    Guesses,
    /// The credentials are for another resource than the request: 400 (RFC 7616 section 3.4.6).
    OtherResource,
}

/// The users and their secrets.
#[derive(Debug)]
pub enum Source {
    /// All users, in memory.
    Users(Users),
    /// Users in a database table, with a cache of known ones.
    Table(Subscribers),
}

/// Who challenges: a registrar (401) or a proxy (407).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Challenger {
    /// 401: WWW-Authenticate and Authorization.
    Server,
    /// 407: Proxy-Authenticate and Proxy-Authorization.
    Proxy,
}

impl Challenger {
    /// The header that carries the credentials.
    #[must_use]
    pub const fn credentials(self) -> HeaderName {
        match self {
            Self::Server => HeaderName::Authorization,
            Self::Proxy => HeaderName::ProxyAuthorization,
        }
    }

    /// The header that carries the challenge.
    #[must_use]
    pub const fn challenge(self) -> HeaderName {
        match self {
            Self::Server => HeaderName::WwwAuthenticate,
            Self::Proxy => HeaderName::ProxyAuthenticate,
        }
    }
}

/// The subscriber with this user name and domain.
#[must_use]
pub fn subscriber(user: &[u8], domain: &Host<'_>) -> Subscriber {
    Subscriber { user: user.into(), domain: domain_name(domain).into() }
}

/// The sender of credentials.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a> {
    /// The domain of the user.
    pub domain: &'a Host<'a>,
    /// The source for which wrong passwords are counted.
    pub guesser: Guesser,
    /// Whether the address of the source may be spoofed.
    pub may_be_spoofed: bool,
    /// Whether the user is registered from there.
    pub standing: Standing,
}

/// Checks credentials and creates challenges.
#[derive(Debug)]
pub struct Authenticator {
    realm: String,
    algorithms: Vec<Algorithm>,
    users: Source,
    nonces: Nonces,
    /// Stands in for the secret of an unknown user, so that checking takes equally long.
    nobody: [u8; 16],
    guesses: Guesses,
}

impl Authenticator {
    /// Creates an authenticator for a realm and its users. `algorithms` are offered in this order; `seed`
    /// must be random.
    #[must_use]
    pub fn new(
        realm: String,
        algorithms: Vec<Algorithm>,
        users: Source,
        nonces: Nonces,
        seed: [u8; 16],
    ) -> Self {
        let guesses = Guesses::new(seed, Self::WRONG_MAX);
        Self { realm, algorithms, users, nonces, nobody: seed, guesses }
    }

    /// Default maximum of wrong passwords for one user from one address. One is forgiven every 30 seconds.
    pub const WRONG_MAX: u32 = 10;

    /// Sets the maximum of wrong passwords; 0 for no limit.
    #[must_use]
    pub fn wrong_max(self, most: u32) -> Self {
        Self { guesses: Guesses::new(self.nobody, most), ..self }
    }

    /// The counters of wrong passwords.
    #[must_use]
    pub const fn guesses(&self) -> GuessCounters {
        self.guesses.counters
    }

    /// Takes over the guess counters of an earlier authenticator.
    #[must_use]
    pub fn inherit(mut self, last: Option<Self>) -> Self {
        if let Some(last) = last {
            self.guesses.inherit(last.guesses);
        }
        self
    }

    /// Counts credentials that were rejected unchecked.
    pub const fn refused(&mut self) {
        self.guesses.refused();
    }

    /// Checks the credentials that a request contains for this realm.
    pub fn check<'a>(
        &mut self,
        now: Time,
        message: &Message<'a>,
        challenger: Challenger,
        sender: &Sender<'_>,
    ) -> Verdict<'a> {
        let (mut stale, mut wrong) = (false, false);
        for line in message.lines(challenger.credentials()) {
            let Ok(auth) = line.parse::<Auth<'a>>() else { continue };
            let Some(digest) = auth.digest() else { continue };
            if digest.realm != Some(self.realm.as_bytes()) {
                continue;
            }
            match self.check_one(now, message, &digest, sender) {
                right @ Verdict::Is { .. } => return right,
                Verdict::LookUp(user) => return Verdict::LookUp(user),
                Verdict::Guesses => return Verdict::Guesses,
                Verdict::OtherResource => return Verdict::OtherResource,
                Verdict::Challenge { stale: is_stale, wrong: is_wrong } => {
                    stale |= is_stale;
                    wrong |= is_wrong;
                }
            }
        }
        Verdict::Challenge { stale, wrong }
    }

    fn check_one<'a>(
        &mut self,
        now: Time,
        message: &Message<'a>,
        digest: &crate::codec::Digest<'a>,
        sender: &Sender<'_>,
    ) -> Verdict<'a> {
        let wrong = Verdict::Challenge { stale: false, wrong: false };
        let Sender { domain, standing, .. } = sender;
        let Some((algorithm, count)) = self.accepted(digest) else { return wrong };
        let (Some(named), Some(nonce), Some(uri), Some(given), Some(line)) =
            (digest.username, digest.nonce, digest.uri, digest.response, message.request_line())
        else {
            return wrong;
        };
        // The digest must be for this request, not for an overheard one.
        if !resource::is_same(uri, line.uri) {
            return Verdict::OtherResource;
        }
        let user = self.user_of(named, domain);
        // Neither the owner of a spoofed address, nor a guesser with several addresses, may be charged or let in
        // by a nonce that was sent elsewhere. A phone that has moved gets one at its new address.
        let is_sent_here = self.nonces.is_of(nonce, sender.guesser.recipient());
        if sender.may_be_spoofed && !is_sent_here && self.nonces.is_ours(nonce) {
            return Verdict::Challenge { stale: true, wrong: false };
        }
        let call = match line.method {
            Method::Register => self.guesses.call(message.first_value(HeaderName::CallId)),
            _ => 0,
        };
        let guesser = &Guesser { call, ..sender.guesser };
        if self.guesses.are_too_many(now, guesser, user, *standing) {
            return Verdict::Guesses;
        }
        let realm = self.realm.as_bytes();
        let known = match &mut self.users {
            Source::Users(users) => users.secret((user, named), domain, algorithm, realm),
            // Without a nonce of this server, no lookup is made.
            Source::Table(_) if !self.nonces.is_ours(nonce) => return wrong,
            Source::Table(table) => match table.known(now, &subscriber(user, domain)) {
                Some(secret) => secret.and_then(|secret| secret.hash(named, algorithm, realm)),
                None => return Verdict::LookUp(user),
            },
        };
        let secret = known.clone().unwrap_or_else(|| algorithm.hash(&[&self.nobody]));
        let expected = response(algorithm, &secret, line.method.as_bytes(), digest);
        if !digest::same(&expected, given) || known.is_none() {
            // A nonce of this server makes it a response to a challenge.
            let is_guess = self.nonces.is_ours(nonce);
            if is_guess {
                self.guesses.wrong(now, guesser, user);
            }
            return Verdict::Challenge { stale: false, wrong: is_guess };
        }
        match self.nonces.use_once(now, nonce, count) {
            Freshness::Fresh => {
                self.guesses.right(now, guesser, user);
                Verdict::Is { user, nonce_sent_here: is_sent_here && guesser.edge.is_none() }
            }
            Freshness::Stale => Verdict::Challenge { stale: true, wrong: false },
            Freshness::Forged => wrong,
        }
    }

    /// The algorithm and the nonce count of a digest, if both are acceptable.
    fn accepted(&self, digest: &crate::codec::Digest<'_>) -> Option<(Algorithm, u32)> {
        let algorithm = Algorithm::from_name(digest.algorithm.unwrap_or(b"MD5"))?;
        let count = match digest.qop {
            None => 1,
            Some(b"auth") => digest.nonce_count().ok()??,
            Some(_) => return None,
        };
        self.algorithms.contains(&algorithm).then_some((algorithm, count))
    }

    /// The user that a username in credentials stands for. Some phones send `user@domain`, and sipsak sends
    /// `user@`. A user whose name really contains an `@` takes precedence.
    fn user_of<'a>(&self, username: &'a [u8], domain: &Host<'_>) -> &'a [u8] {
        let Some(at) = username.iter().rposition(|byte| *byte == b'@') else { return username };
        let (user, after) = username.split_at(at);
        let named = after.get(1..).unwrap_or(&[]);
        let is_ours = named.is_empty()
            || named.eq_ignore_ascii_case(&domain_name(domain))
            || named.eq_ignore_ascii_case(self.realm.as_bytes());
        let is_whole = matches!(&self.users, Source::Users(users) if users.knows(username, domain));
        if is_ours && !is_whole { user } else { username }
    }

    /// Whether the user exists; `None` if a lookup is needed.
    pub fn knows(&mut self, now: Time, user: &[u8], domain: &Host<'_>) -> Option<bool> {
        match &mut self.users {
            Source::Users(users) => Some(users.knows(user, domain)),
            Source::Table(table) => {
                table.known(now, &subscriber(user, domain)).map(|secret| secret.is_some())
            }
        }
    }

    /// Stores the result of a lookup: `None` if it failed, `Some(None)` if the subscriber doesn't exist.
    /// Returns whether anything is known now.
    pub fn handle_subscriber(&mut self, now: Time, who: Subscriber, found: Option<Option<Secret>>) -> bool {
        match (&mut self.users, found) {
            (Source::Users(_), _) => true,
            (Source::Table(table), Some(secret)) => {
                table.found(now, who, secret);
                true
            }
            (Source::Table(table), None) => table.not_found(now, &who),
        }
    }

    /// The challenges to send to `to`, the preferred one first.
    pub fn challenges(&mut self, now: Time, stale: bool, to: &Guesser) -> Vec<String> {
        let nonce = self.nonces.make(now, to.recipient());
        let stale = if stale { ", stale=true" } else { "" };
        let realm = &self.realm;
        let one = |algorithm: &Algorithm| {
            let name = algorithm.name();
            format!("Digest realm=\"{realm}\", nonce=\"{nonce}\", algorithm={name}, qop=\"auth\"{stale}")
        };
        self.algorithms.iter().map(one).collect()
    }
}
