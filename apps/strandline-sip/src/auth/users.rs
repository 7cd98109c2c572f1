//! Users and their secrets, from a file.

use std::collections::HashMap;

use super::digest::Algorithm;

/// What is wrong with a file of users, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct UsersError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub what: String,
}

/// What a user proves to know.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Kind);

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Password(Vec<u8>),
    Hashes(Vec<(Algorithm, Vec<u8>)>),
}

impl Secret {
    /// A password, or else hashes of user, realm and password in hexadecimal, of which those don't count that aren't what
    /// they should be. `None` if there is neither.
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
    secrets: HashMap<Vec<u8>, Secret>,
}

impl Users {
    /// Reads lines `user:password:PASSWORD`, or `user:ALGORITHM:HASH` with MD5, SHA-256 or SHA-512-256 of
    /// `user:realm:password` in hexadecimal, of which one user may have several. Empty lines and those that start with `#`
    /// are skipped.
    ///
    /// # Errors
    /// The first line that is neither.
    ///
    /// ```
    /// use strandline_sip::auth::Users;
    ///
    /// assert_eq!(Users::read("# phones\nalice:password:wonder:land\n")?.len(), 1);
    /// assert_eq!(Users::read("\nbob:MD5:12").map_err(|error| error.line).err(), Some(2));
    /// # Ok::<(), strandline_sip::auth::UsersError>(())
    /// ```
    pub fn read(text: &str) -> Result<Self, UsersError> {
        let mut users = Self::default();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |what: &str| UsersError { line: number + 1, what: what.to_owned() };
            let mut parts = line.splitn(3, ':');
            let (Some(user), Some(kind), Some(value)) = (parts.next(), parts.next(), parts.next()) else {
                return Err(wrong("not like user:password:PASSWORD or user:SHA-256:HASH"));
            };
            let user = user.as_bytes().to_vec();
            if kind == "password" {
                if users.secrets.insert(user, Secret(Kind::Password(value.as_bytes().to_vec()))).is_some() {
                    return Err(wrong("this user is there already"));
                }
                continue;
            }
            let algorithm = Algorithm::from_name(kind.as_bytes())
                .ok_or_else(|| wrong("neither password, MD5, SHA-256 nor SHA-512-256"))?;
            if value.len() != algorithm.digits() || !value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(wrong("the hash has not as many hexadecimal digits as it should"));
            }
            let hash = (algorithm, value.to_ascii_lowercase().into_bytes());
            match &mut users.secrets.entry(user).or_insert_with(|| Secret(Kind::Hashes(Vec::new()))).0 {
                Kind::Hashes(hashes) if hashes.iter().all(|(other, _)| *other != algorithm) => {
                    hashes.push(hash)
                }
                _ => return Err(wrong("this user has such a secret already")),
            }
        }
        Ok(users)
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    /// None.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// The hash of user, realm and password.
    pub(super) fn secret(&self, user: &[u8], algorithm: Algorithm, realm: &[u8]) -> Option<Vec<u8>> {
        self.secrets.get(user)?.hash(user, algorithm, realm)
    }
}
