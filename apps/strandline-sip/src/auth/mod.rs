//! Digest authentication (RFC 7616, RFC 8760, RFC 3261 section 22). No I/O, no clock.
//!
//! A nonce holds its own time and a seal, so none is stored when a challenge is sent. Once one is used, a table of fixed size
//! remembers how often: the same credentials are never taken twice.

mod digest;
mod domain;
mod guesses;
mod nonce;
mod resource;
mod subscribers;
mod users;

use core::net::IpAddr;

use crate::codec::{Auth, HeaderName, Host, Message};
use crate::transaction::Time;

pub use digest::{Algorithm, response};
use domain::domain_name;
use guesses::Guesses;
pub use guesses::{GuessCounters, Guesser, Standing, is_same_origin};
use nonce::Freshness;
pub use nonce::Nonces;
pub use subscribers::{CacheSettings, Subscriber, Subscribers};
pub use users::{Secret, Users, UsersError};

/// What credentials came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// They are right.
    Is {
        /// Whose they are.
        user: &'a [u8],
        /// Their nonce was sent to the address that they came from, so whoever is there gets what is sent to it.
        asked_here: bool,
    },
    /// There are none, or wrong ones: a challenge is due. With `stale`, the password was right and only the nonce is too old
    /// or used up, so that the phone needn't ask its user.
    Challenge {
        /// The password was right.
        stale: bool,
        /// An answer to a nonce of ours was wrong, which counts as a guess.
        wrong: bool,
    },
    /// Somebody has to look for this user first.
    LookUp(&'a [u8]),
    /// There were too many wrong ones from there: they were not looked at.
    Guesses,
    /// They are for another resource than the request: 400 (RFC 7616 section 3.4.6).
    OtherResource,
}

/// Where users and their secrets are.
#[derive(Debug)]
pub enum Source {
    /// All of them here.
    Users(Users),
    /// In a table, of which this is what is known.
    Table(Subscribers),
}

/// Whom to ask for a password: the phone of a user, or who calls through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// 401: WWW-Authenticate and Authorization.
    Server,
    /// 407: Proxy-Authenticate and Proxy-Authorization.
    Proxy,
}

impl Asking {
    /// The header of credentials.
    #[must_use]
    pub const fn credentials(self) -> HeaderName {
        match self {
            Self::Server => HeaderName::Authorization,
            Self::Proxy => HeaderName::ProxyAuthorization,
        }
    }

    /// The header of challenges.
    #[must_use]
    pub const fn challenge(self) -> HeaderName {
        match self {
            Self::Server => HeaderName::WwwAuthenticate,
            Self::Proxy => HeaderName::ProxyAuthenticate,
        }
    }
}

/// The subscriber with this name.
#[must_use]
pub fn subscriber(user: &[u8], domain: &Host<'_>) -> Subscriber {
    Subscriber { user: user.into(), domain: domain_name(domain).into() }
}

/// The sender of credentials.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a> {
    /// The domain of the user.
    pub domain: &'a Host<'a>,
    /// The address that the request came from.
    pub source: IpAddr,
    /// The source that wrong passwords are counted for.
    pub guesser: Guesser,
    /// What is known of the user there.
    pub standing: Standing,
}

/// Checks credentials.
#[derive(Debug)]
pub struct Authenticator {
    realm: String,
    algorithms: Vec<Algorithm>,
    users: Source,
    nonces: Nonces,
    /// Compared with where there is no such user, so that it takes as long.
    nobody: [u8; 16],
    guesses: Guesses,
}

impl Authenticator {
    /// For a realm and its users. `algorithms` are offered in this order; `seed` must be random.
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

    /// Wrong passwords from one address for one user that are put up with; one is forgiven every half minute.
    pub const WRONG_MAX: u32 = 10;

    /// The same with another limit; 0 is none.
    #[must_use]
    pub fn wrong_max(self, most: u32) -> Self {
        Self { guesses: Guesses::new(self.nobody, most), ..self }
    }

    /// How many wrong passwords there were.
    #[must_use]
    pub const fn guesses(&self) -> GuessCounters {
        self.guesses.counters
    }

    /// Goes on with what the last authenticator knows of guesses.
    #[must_use]
    pub fn inherit(mut self, last: Option<Self>) -> Self {
        if let Some(last) = last {
            self.guesses.inherit(last.guesses);
        }
        self
    }

    /// Credentials were refused unseen.
    pub const fn refused(&mut self) {
        self.guesses.refused();
    }

    /// Checks the credentials of a request for our realm.
    pub fn check<'a>(
        &mut self,
        now: Time,
        message: &Message<'a>,
        asking: Asking,
        sender: &Sender<'_>,
    ) -> Verdict<'a> {
        let (mut stale, mut wrong) = (false, false);
        for line in message.lines(asking.credentials()) {
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
        let Sender { domain, source, guesser, standing } = sender;
        let Some(algorithm) = Algorithm::from_name(digest.algorithm.unwrap_or(b"MD5")) else { return wrong };
        let (Some(user), Some(nonce), Some(uri), Some(given)) =
            (digest.username, digest.nonce, digest.uri, digest.response)
        else {
            return wrong;
        };
        let Some(line) = message.request_line().filter(|_| self.algorithms.contains(&algorithm)) else {
            return wrong;
        };
        if !matches!(digest.qop, None | Some(b"auth")) {
            return wrong;
        }
        // The digest must be for this request, not for another that somebody has overheard.
        if !resource::is_same(uri, line.uri) {
            return Verdict::OtherResource;
        }
        let (named, user) = (user, self.user_of(user, domain));
        let count = match digest.qop {
            None => 1,
            Some(_) => match digest.nonce_count() {
                Ok(Some(count)) => count,
                _ => return wrong,
            },
        };
        if self.guesses.are_too_many(now, guesser, user, *standing) {
            return Verdict::Guesses;
        }
        let realm = self.realm.as_bytes();
        let known = match &mut self.users {
            Source::Users(users) => users.secret((user, named), domain, algorithm, realm),
            // Nobody looks for those who haven't even asked for a nonce.
            Source::Table(_) if !self.nonces.is_ours(nonce) => return wrong,
            Source::Table(table) => match table.known(now, &subscriber(user, domain)) {
                Some(secret) => secret.and_then(|secret| secret.hash(named, algorithm, realm)),
                None => return Verdict::LookUp(user),
            },
        };
        let secret = known.clone().unwrap_or_else(|| algorithm.hash(&[&self.nobody]));
        let expected = response(algorithm, &secret, line.method.as_bytes(), digest);
        if !digest::same(&expected, given) || known.is_none() {
            // With a nonce of ours it was an answer to us.
            let is_guess = self.nonces.is_ours(nonce);
            if is_guess {
                self.guesses.wrong(now, guesser, user);
            }
            return Verdict::Challenge { stale: false, wrong: is_guess };
        }
        match self.nonces.use_once(now, nonce, count) {
            Freshness::Fresh => {
                self.guesses.right(now, guesser, user);
                Verdict::Is { user, asked_here: self.nonces.is_of(nonce, *source) }
            }
            Freshness::Stale => Verdict::Challenge { stale: true, wrong: false },
            Freshness::Forged => wrong,
        }
    }

    /// The user whom a username of credentials stands for: some phones write `user@domain` there, and sipsak `user@`. A user who has an `@` goes before.
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

    /// Is there such a user? `None` if somebody has to look.
    pub fn knows(&mut self, now: Time, user: &[u8], domain: &Host<'_>) -> Option<bool> {
        match &mut self.users {
            Source::Users(users) => Some(users.knows(user, domain)),
            Source::Table(table) => {
                table.known(now, &subscriber(user, domain)).map(|secret| secret.is_some())
            }
        }
    }

    /// Somebody has looked for a subscriber, who may not exist; or could not look. Returns whether anything is known now.
    pub fn looked_up(&mut self, now: Time, who: Subscriber, found: Option<Option<Secret>>) -> bool {
        match (&mut self.users, found) {
            (Source::Users(_), _) => true,
            (Source::Table(table), Some(secret)) => {
                table.found(now, who, secret);
                true
            }
            (Source::Table(table), None) => table.not_found(now, &who),
        }
    }

    /// The values of the challenges to send to this address, the most preferred first.
    pub fn challenges(&mut self, now: Time, stale: bool, to: IpAddr) -> Vec<String> {
        let nonce = self.nonces.make(now, to);
        let stale = if stale { ", stale=true" } else { "" };
        let realm = &self.realm;
        let one = |algorithm: &Algorithm| {
            let name = algorithm.name();
            format!("Digest realm=\"{realm}\", nonce=\"{nonce}\", algorithm={name}, qop=\"auth\"{stale}")
        };
        self.algorithms.iter().map(one).collect()
    }
}
