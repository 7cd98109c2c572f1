//! Users and their secrets, read from a file.

use std::collections::HashMap;

use crate::codec::Host;

use super::digest::Algorithm;
use super::domain::domain_name;

/// An error in a file of users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct UsersError {
    /// The line number, from 1.
    pub line: usize,
    /// What is wrong, and what is expected.
    pub what: String,
}

/// A secret that authenticates a user.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Kind);

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Password(Vec<u8>),
    Hashes(Vec<(Algorithm, Vec<u8>)>),
}

impl Secret {
    /// Creates a secret from a password, or else from hexadecimal hashes of user, realm and password;
    /// malformed hashes are ignored. `None` if there is neither.
    #[must_use]
    pub fn of(password: Option<Vec<u8>>, mut hashes: Vec<(Algorithm, Vec<u8>)>) -> Option<Self> {
        if let Some(password) = password {
            return Some(Self(Kind::Password(password)));
        }
        hashes.retain(|(algorithm, hash)| {
            hash.len() == algorithm.digits() && hash.iter().all(u8::is_ascii_hexdigit)
        });
        hashes.iter_mut().for_each(|(_, hash)| hash.make_ascii_lowercase());
        (!hashes.is_empty()).then_some(Self(Kind::Hashes(hashes)))
    }

    /// The hash of user, realm and password.
    pub(super) fn hash(&self, user: &[u8], algorithm: Algorithm, realm: &[u8]) -> Option<Vec<u8>> {
        match &self.0 {
            Kind::Password(password) => Some(algorithm.hash(&[user, realm, password])),
            Kind::Hashes(hashes) => {
                hashes.iter().find(|(other, _)| *other == algorithm).map(|(_, hash)| hash.clone())
            }
        }
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

/// Users and their secrets.
#[derive(Debug, Clone, Default)]
pub struct Users {
    /// Users of any domain.
    anywhere: HashMap<Vec<u8>, Secret>,
    /// Users by domain, in lowercase. They take precedence over `anywhere`.
    of_domains: HashMap<Vec<u8>, OfDomain>,
}

/// The users of one domain.
#[derive(Debug, Clone)]
struct OfDomain {
    /// The first line that names the domain.
    line: usize,
    secrets: HashMap<Vec<u8>, Secret>,
}

impl Users {
    /// Reads lines of the form `user:password:PASSWORD` or `user:ALGORITHM:HASH`. The hash is that of
    /// `user:realm:password` in hexadecimal, with MD5, SHA-256 or SHA-512-256; a user may have several. A
    /// line for `user@domain` applies to that domain only and takes precedence over one for `user`; its hash
    /// doesn't include the domain. Empty lines and lines that start with `#` are skipped.
    ///
    /// # Errors
    /// Returns an error for the first malformed line.
    ///
    /// ```
    /// use strandline_sip::auth::Users;
    ///
    /// let users = Users::read("# phones\nalice:password:wonder:land\nbob@example.net:password:builder\n")?;
    /// assert_eq!(users.len(), 2);
    /// assert_eq!(users.domains().collect::<Vec<_>>(), [("example.net", 3)]);
    /// assert_eq!(Users::read("\nbob:MD5:12").map_err(|error| error.line).err(), Some(2));
    /// # Ok::<(), strandline_sip::auth::UsersError>(())
    /// ```
    pub fn read(text: &str) -> Result<Self, UsersError> {
        let mut users = Self::default();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            users
                .add(number + 1, line)
                .map_err(|what| UsersError { line: number + 1, what: what.to_owned() })?;
        }
        Ok(users)
    }

    fn add(&mut self, number: usize, line: &str) -> Result<(), &'static str> {
        let mut parts = line.splitn(3, ':');
        let (Some(name), Some(kind), Some(value)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("expected user:password:PASSWORD or user:SHA-256:HASH");
        };
        let (user, secrets) = self.place(number, name)?;
        if kind == "password" {
            let secret = Secret(Kind::Password(value.as_bytes().to_vec()));
            return match secrets.insert(user, secret) {
                Some(_) => Err("the user is listed twice"),
                None => Ok(()),
            };
        }
        let algorithm = Algorithm::from_name(kind.as_bytes())
            .ok_or("unknown kind of secret: use password, MD5, SHA-256 or SHA-512-256")?;
        if value.len() != algorithm.digits() || !value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(
                "the hash has the wrong length for its algorithm, or digits that are not hexadecimal",
            );
        }
        let hash = (algorithm, value.to_ascii_lowercase().into_bytes());
        match &mut secrets.entry(user).or_insert_with(|| Secret(Kind::Hashes(Vec::new()))).0 {
            Kind::Hashes(hashes) if hashes.iter().all(|(other, _)| *other != algorithm) => {
                hashes.push(hash);
                Ok(())
            }
            _ => Err("the user has two secrets of this kind"),
        }
    }

    /// The user for a name, and the secrets to which it belongs. User names may contain `@`, so the last one
    /// separates the domain.
    fn place(
        &mut self,
        line: usize,
        name: &str,
    ) -> Result<(Vec<u8>, &mut HashMap<Vec<u8>, Secret>), &'static str> {
        let Some((user, domain)) = name.rsplit_once('@') else {
            return Ok((name.into(), &mut self.anywhere));
        };
        if user.is_empty() || domain.is_empty() {
            return Err("expected user or user@domain");
        }
        let domain = domain.to_ascii_lowercase().into_bytes();
        let of_domain =
            self.of_domains.entry(domain).or_insert_with(|| OfDomain { line, secrets: HashMap::new() });
        Ok((user.into(), &mut of_domain.secrets))
    }

    /// The number of users.
    #[must_use]
    pub fn len(&self) -> usize {
        self.anywhere.len() + self.of_domains.values().map(|of_domain| of_domain.secrets.len()).sum::<usize>()
    }

    /// Returns true if there are no users.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The domains in lowercase, each with the first line that names it.
    pub fn domains(&self) -> impl Iterator<Item = (&str, usize)> {
        let text = |domain| core::str::from_utf8(domain).unwrap_or_default();
        self.of_domains.iter().map(move |(domain, of_domain)| (text(domain), of_domain.line))
    }

    /// The algorithms to offer so that every user can authenticate: MD5, which all phones support, and those
    /// needed by users who have neither a password nor an MD5 hash.
    #[must_use]
    pub fn algorithms(&self) -> Vec<Algorithm> {
        let mut needed = vec![Algorithm::Md5];
        let of_domains = self.of_domains.values().flat_map(|of_domain| of_domain.secrets.values());
        for secret in self.anywhere.values().chain(of_domains) {
            let Kind::Hashes(hashes) = &secret.0 else { continue };
            if !hashes.iter().any(|(algorithm, _)| *algorithm == Algorithm::Md5) {
                for (algorithm, _) in hashes {
                    if !needed.contains(algorithm) {
                        needed.push(*algorithm);
                    }
                }
            }
        }
        needed
    }

    fn of(&self, user: &[u8], domain: &Host<'_>) -> Option<&Secret> {
        let of_domain = || self.of_domains.get(&domain_name(domain))?.secrets.get(user);
        let own = if self.of_domains.is_empty() { None } else { of_domain() };
        own.or_else(|| self.anywhere.get(user))
    }

    /// Returns true if the user exists.
    pub(super) fn knows(&self, user: &[u8], domain: &Host<'_>) -> bool {
        self.of(user, domain).is_some()
    }

    /// The hash of the name in the credentials, the realm and the password.
    pub(super) fn secret(
        &self,
        (user, named): (&[u8], &[u8]),
        domain: &Host<'_>,
        algorithm: Algorithm,
        realm: &[u8],
    ) -> Option<Vec<u8>> {
        self.of(user, domain)?.hash(named, algorithm, realm)
    }
}
