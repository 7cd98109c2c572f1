//! Digest credentials of phones (RFC 7616, RFC 8760). A challenge is answered with the first offered
//! algorithm that is supported, and its nonce is reused until the server sends another.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;

use md5::Md5;
use sha2::{Digest as _, Sha256, Sha512_256};

use super::answer::Came;

/// A hash algorithm of RFC 8760.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha256,
    Sha512_256,
}

impl Algorithm {
    /// Returns the algorithm with this name; MD5 if there is no name.
    fn of(name: Option<&str>) -> Option<Self> {
        match name {
            None => Some(Self::Md5),
            Some(name) if name.eq_ignore_ascii_case("MD5") => Some(Self::Md5),
            Some(name) if name.eq_ignore_ascii_case("SHA-256") => Some(Self::Sha256),
            Some(name) if name.eq_ignore_ascii_case("SHA-512-256") => Some(Self::Sha512_256),
            Some(_) => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
            Self::Sha512_256 => "SHA-512-256",
        }
    }

    fn hash(self, text: &str) -> String {
        match self {
            Self::Md5 => hex(&Md5::digest(text)),
            Self::Sha256 => hex(&Sha256::digest(text)),
            Self::Sha512_256 => hex(&Sha512_256::digest(text)),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A server's challenge, and the number of its uses.
#[derive(Debug, Clone)]
struct Challenge {
    realm: String,
    nonce: String,
    algorithm: Algorithm,
    /// Whether `qop="auth"` is offered; without it the hash is that of RFC 2069.
    qop: bool,
    count: u32,
}

/// The challenger: a server for itself (401), or a proxy (407).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Challenger {
    Server,
    Proxy,
}

impl Challenger {
    /// Returns the challenger of a status code.
    pub(super) const fn of(code: u16) -> Option<Self> {
        match code {
            401 => Some(Self::Server),
            407 => Some(Self::Proxy),
            _ => None,
        }
    }

    const fn challenge(self) -> &'static str {
        match self {
            Self::Server => "WWW-Authenticate",
            Self::Proxy => "Proxy-Authenticate",
        }
    }

    const fn credentials(self) -> &'static str {
        match self {
            Self::Server => "Authorization",
            Self::Proxy => "Proxy-Authorization",
        }
    }
}

/// The password of all phones, and the challenges of each.
#[derive(Debug)]
pub(super) struct Credentials {
    password: String,
    challenges: HashMap<(u32, Challenger), Challenge>,
    line: Vec<u8>,
}

impl Credentials {
    pub(super) fn new(password: String) -> Self {
        Self { password, challenges: HashMap::new(), line: Vec::new() }
    }

    /// Records a challenge of a phone. Returns false if the phone can't answer it.
    pub(super) fn on_challenge(&mut self, user: u32, challenger: Challenger, answer: &Came<'_>) -> bool {
        let read = |value: &[u8]| std::str::from_utf8(value).ok().and_then(challenge);
        match answer.values(challenger.challenge()).find_map(read) {
            Some(challenge) => {
                self.challenges.insert((user, challenger), challenge);
                true
            }
            None => false,
        }
    }

    /// Returns the header line with a phone's credentials; empty if it wasn't challenged.
    pub(super) fn line(
        &mut self,
        user: u32,
        name: &str,
        challenger: Challenger,
        method: &str,
        uri: &str,
    ) -> &[u8] {
        self.line.clear();
        if let Some(challenge) = self.challenges.get_mut(&(user, challenger)) {
            challenge.count += 1;
            let header = challenger.credentials();
            let response = challenge.response(name, &self.password, method, uri);
            let Challenge { realm, nonce, algorithm, .. } = challenge;
            let algorithm = algorithm.name();
            // Writing to a vector doesn't fail.
            let _ = write!(
                self.line,
                "{header}: Digest username=\"{name}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", \
                 algorithm={algorithm}, response=\"{response}\""
            );
            if challenge.qop {
                let _ = write!(self.line, ", qop=auth, nc={:08x}, cnonce=\"{CNONCE}\"", challenge.count);
            }
            self.line.extend_from_slice(b"\r\n");
        }
        &self.line
    }
}

/// Client nonce, which need not be random in a load.
const CNONCE: &str = "5f1d6b2c";

impl Challenge {
    /// Computes the response (RFC 7616 section 3.4.1).
    fn response(&self, name: &str, password: &str, method: &str, uri: &str) -> String {
        let Self { realm, nonce, algorithm, qop, count } = self;
        let secret = algorithm.hash(&format!("{name}:{realm}:{password}"));
        let what = algorithm.hash(&format!("{method}:{uri}"));
        match qop {
            true => algorithm.hash(&format!("{secret}:{nonce}:{count:08x}:{CNONCE}:auth:{what}")),
            false => algorithm.hash(&format!("{secret}:{nonce}:{what}")),
        }
    }
}

/// Parses a challenge whose algorithm is supported.
fn challenge(value: &str) -> Option<Challenge> {
    let (scheme, rest) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("Digest") {
        return None;
    }
    let find = |wanted: &str| {
        params(rest).find_map(|(name, value)| name.eq_ignore_ascii_case(wanted).then_some(value))
    };
    let offers = |qop: &str| qop.split(',').any(|one| one.trim().eq_ignore_ascii_case("auth"));
    Some(Challenge {
        realm: find("realm")?.to_owned(),
        nonce: find("nonce")?.to_owned(),
        algorithm: Algorithm::of(find("algorithm"))?,
        qop: find("qop").is_some_and(offers),
        count: 0,
    })
}

/// Returns names and values, without the quotes. A backslash within quotes is taken literally: nonces contain
/// none.
fn params(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (name, after) = rest.trim_start_matches([',', ' ', '\t']).split_once('=')?;
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        rest = next;
        Some((name.trim(), value.trim()))
    })
}

#[cfg(test)]
mod tests;
