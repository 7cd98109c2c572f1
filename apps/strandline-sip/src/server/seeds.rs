//! Random keys, and objects that depend on them.

use anyhow::Result;

use crate::auth::{Authenticator, Nonces, Source, Subscribers};
use crate::service::Seeds;

use super::config::{Auth, Users};

/// Number of nonces that can be in use at once.
const NONCES: usize = 1 << 20;

pub(super) fn random_seeds() -> Result<Seeds> {
    Ok(Seeds {
        transactions: random()?,
        registrations: random()?,
        locations: random()?,
        overload: random()?,
        gruus: random()?,
        marks: random()?,
        tokens: random()?,
    })
}

fn random<const LEN: usize>() -> Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    #[allow(clippy::disallowed_methods)]
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("reading random numbers from the system: {error}"))?;
    Ok(bytes)
}

impl Seeds {
    /// Sets the key for tags and loop detection, which is common to all processes of a server.
    pub(super) fn agree_on(&mut self, key: [u8; 16]) {
        self.marks = key;
    }
}

pub(super) fn random_key() -> Result<[u8; 16]> {
    random()
}

/// The key that seals nonces, common to nodes that share a store, and a number that differs between runs.
#[derive(Clone, Copy)]
pub(super) struct NonceKey {
    pub(super) key: [u8; 16],
    pub(super) run: u64,
}

impl NonceKey {
    /// Creates a random key and number.
    pub(super) fn random() -> Result<Self> {
        let (key, run) = (random_key()?, u128::from_le_bytes(random_key()?) as u64);
        Ok(Self { key, run })
    }

    /// The key for a new run. The used counts of earlier nonces are unknown to it, so these are stale.
    pub(super) const fn next(self) -> Self {
        Self { run: self.run.wrapping_add(1), ..self }
    }
}

pub(super) fn authenticator(auth: &Auth, nonces: NonceKey) -> Result<Authenticator> {
    let nonces = Nonces::new(nonces.key, auth.nonce_lifetime, NONCES).of_run(nonces.run);
    let users = match &auth.users {
        Users::File(users) => Source::Users(users.clone()),
        Users::Table(_, cache) => Source::Table(Subscribers::new(*cache)),
    };
    let (realm, algorithms) = (auth.realm.clone(), auth.algorithms.clone());
    Ok(Authenticator::new(realm, algorithms, users, nonces, random_key()?).wrong_max(auth.wrong_max))
}
