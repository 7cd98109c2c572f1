//! `[auth]`: who has to prove who they are.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::auth::{Algorithm, Users};

use super::error::{ConfigError, wrong};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    realm: String,
    users: PathBuf,
    algorithms: Option<Vec<String>>,
    nonce_lifetime_secs: Option<u64>,
}

/// How users prove who they are.
#[derive(Debug, Clone)]
pub struct Auth {
    /// The realm.
    pub realm: String,
    /// The users and their secrets.
    pub users: Users,
    /// What is offered, the most preferred first.
    pub algorithms: Vec<Algorithm>,
    /// How long a nonce can be used.
    pub nonce_lifetime: Duration,
}

pub(super) fn check(file: Table) -> Result<Auth, ConfigError> {
    if file.realm.is_empty() || file.realm.chars().any(|char| char.is_control() || matches!(char, '"' | '\\'))
    {
        return Err(wrong(
            "auth.realm",
            "must be a text without quotes and backslashes, such as \"example.com\"",
        ));
    }
    let text = std::fs::read_to_string(&file.users)
        .map_err(|cause| ConfigError::Unreadable { path: file.users.clone(), cause })?;
    let users = Users::read(&text)
        .map_err(|error| wrong("auth.users", format!("{}, {error}", file.users.display())))?;
    let names = file.algorithms.unwrap_or_else(|| vec!["SHA-256".to_owned(), "MD5".to_owned()]);
    let known = |name: &String| {
        let message = || format!("{name:?} is none of \"SHA-256\", \"SHA-512-256\" and \"MD5\"");
        Algorithm::from_name(name.as_bytes()).ok_or_else(|| wrong("auth.algorithms", message()))
    };
    let algorithms: Vec<Algorithm> = names.iter().map(known).collect::<Result<_, _>>()?;
    if algorithms.is_empty() {
        return Err(wrong("auth.algorithms", "at least one is needed"));
    }
    let nonce_lifetime = Duration::from_secs(file.nonce_lifetime_secs.unwrap_or(300));
    Ok(Auth { realm: file.realm, users, algorithms, nonce_lifetime })
}
