//! Random keys, and what is made with them.

use anyhow::Result;

use crate::auth::{Authenticator, Nonces};
use crate::service::Seeds;

use super::config::Auth;

/// Nonces in use at once, for which the server remembers what was used of them.
const NONCES: usize = 1 << 20;

pub(super) fn random_seeds() -> Result<Seeds> {
    let mut seeds = Seeds { own: [0; 64], tokens: [0; 16] };
    #[allow(clippy::disallowed_methods)]
    getrandom::fill(&mut seeds.own)
        .and_then(|()| getrandom::fill(&mut seeds.tokens))
        .map_err(|error| anyhow::anyhow!("random numbers: {error}"))?;
    Ok(seeds)
}

pub(super) fn random_key() -> Result<[u8; 16]> {
    Ok(random_seeds()?.tokens)
}

pub(super) fn authenticator(auth: &Auth) -> Result<Authenticator> {
    let nonces = Nonces::new(random_key()?, auth.nonce_lifetime, NONCES);
    let (realm, algorithms, users) = (auth.realm.clone(), auth.algorithms.clone(), auth.users.clone());
    Ok(Authenticator::new(realm, algorithms, users, nonces, random_key()?))
}
