//! `[auth]`: authentication of users.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use strandline_ops::Files;

use crate::auth::{self, Algorithm, CacheSettings};
use crate::store::{Kind, SubscriberTable};

use super::error::{ConfigError, ConfigErrors, in_range, wrong};
use super::files::text_of;
use super::store::Store;
use super::{Config, Listen};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    realm: String,
    users: Option<PathBuf>,
    subscribers: Option<String>,
    cache_secs: Option<u64>,
    cache_unknown_secs: Option<u64>,
    cache_max: Option<usize>,
    algorithms: Option<Vec<String>>,
    nonce_lifetime_secs: Option<u64>,
    wrong_max: Option<u32>,
}

/// Default lifetime of a nonce, in seconds.
const NONCE_SECS: u64 = 300;

/// The users and their secrets.
#[derive(Debug, Clone)]
pub enum Users {
    /// All users, in memory.
    File(auth::Users),
    /// Users in a table, and the settings of its cache.
    Table(SubscriberTable, CacheSettings),
}

/// How users authenticate.
#[derive(Debug, Clone)]
pub struct Auth {
    /// The realm.
    pub realm: String,
    /// The users and their secrets.
    pub users: Users,
    /// The algorithms offered, the preferred ones first.
    pub algorithms: Vec<Algorithm>,
    /// The lifetime of a nonce.
    pub nonce_lifetime: Duration,
    /// Maximum number of wrong passwords for one user from one address; 0 for no limit.
    pub wrong_max: u32,
}

fn cache(file: &Table, errors: &mut ConfigErrors) -> CacheSettings {
    let mut secs = |key: &str, value: Option<u64>, default: u64, most: u64| {
        Duration::from_secs(in_range(key, value, default, 1..=most, errors))
    };
    let lifetime = secs("auth.cache_secs", file.cache_secs, 300, 86_400);
    let unknown = secs("auth.cache_unknown_secs", file.cache_unknown_secs, 10, 3600);
    let max = in_range("auth.cache_max", file.cache_max, 500_000, 100..=100_000_000, errors);
    CacheSettings { max, lifetime, unknown }
}

fn table(text: &str, store: Option<&Store>) -> Result<SubscriberTable, ConfigError> {
    let key = "auth.subscribers";
    if let Some(path) = text.strip_prefix("sqlite:").filter(|path| !path.is_empty()) {
        if matches!(store, Some(Store::Sqlite(store)) if *store == *PathBuf::from(path)) {
            return Err(wrong(
                key,
                "the file is the server's own store, which it keeps locked: use another file",
            ));
        }
        return Ok(SubscriberTable::Sqlite(PathBuf::from(path)));
    }
    match (text, store) {
        ("store", Some(Store::Shared(shared))) if shared.kind != Kind::Redis => {
            Ok(SubscriberTable::Shared(Arc::new((**shared).clone())))
        }
        ("store", _) => {
            let hint = "\"store\" requires a [store] with kind = \"mysql\" or \"postgresql\"; or name a file, such as \
                        \"sqlite:/etc/strandline/subscribers.db\"";
            Err(wrong(key, hint))
        }
        // The value is not shown, because it may contain a password.
        _ => {
            Err(wrong(key, "expected \"store\" or a file such as \"sqlite:/etc/strandline/subscribers.db\""))
        }
    }
}

/// Returns the users. `store` is the store; `None` if its table is wrong.
fn users(
    file: &Table,
    store: Option<Option<&Store>>,
    files: &mut Files,
    errors: &mut ConfigErrors,
) -> Option<Users> {
    match (&file.users, &file.subscribers) {
        (Some(path), None) => {
            for (key, is_given) in [
                ("cache_secs", file.cache_secs.is_some()),
                ("cache_unknown_secs", file.cache_unknown_secs.is_some()),
                ("cache_max", file.cache_max.is_some()),
            ] {
                if is_given {
                    errors.add(wrong(format!("auth.{key}"), "requires auth.subscribers"));
                }
            }
            let text = errors.take(text_of(files, "auth.users", path))?;
            let users = auth::Users::read(&text)
                .map_err(|error| wrong("auth.users", format!("{}, {error}", path.display())));
            errors.take(users).map(Users::File)
        }
        (None, Some(text)) => {
            let cache = cache(file, errors);
            errors.take(table(text, store?)).map(|table| Users::Table(table, cache))
        }
        (None, None) => {
            errors.add(wrong(
                "auth.users",
                "required: a file of users, or a table of them in auth.subscribers",
            ));
            None
        }
        (Some(_), Some(_)) => {
            errors.add(wrong("auth.subscribers", "use either auth.subscribers or auth.users, not both"));
            None
        }
    }
}

/// Checks the table. `store` is the store; `None` if its table is wrong.
pub(super) fn check(
    file: Table,
    store: Option<Option<&Store>>,
    files: &mut Files,
    errors: &mut ConfigErrors,
) -> Option<Auth> {
    if file.realm.is_empty() || file.realm.chars().any(|char| char.is_control() || matches!(char, '"' | '\\'))
    {
        errors.add(wrong(
            "auth.realm",
            "must not be empty or contain quotes or backslashes; use a name such as \"example.com\"",
        ));
    }
    let users = users(&file, store, files, errors);
    let known = |name: &String| {
        let message = || format!("unknown algorithm {name:?}: use \"SHA-256\", \"SHA-512-256\" or \"MD5\"");
        Algorithm::from_name(name.as_bytes()).ok_or_else(message)
    };
    let algorithms: Vec<Algorithm> = match (&file.algorithms, &users) {
        (Some(names), _) => errors.take_all("auth.algorithms", names.iter().map(known)),
        (None, Some(Users::File(users))) => users.algorithms(),
        (None, _) => vec![Algorithm::Md5],
    };
    if file.algorithms.as_ref().map_or(algorithms.is_empty(), Vec::is_empty) {
        errors.add(wrong("auth.algorithms", "at least one is required"));
    }
    let secs =
        in_range("auth.nonce_lifetime_secs", file.nonce_lifetime_secs, NONCE_SECS, 10..=86_400, errors);
    let nonce_lifetime = Duration::from_secs(secs);
    let wrong_max = file.wrong_max.unwrap_or(auth::Authenticator::WRONG_MAX);
    if wrong_max > 1000 {
        errors.add(wrong("auth.wrong_max", format!("{wrong_max} is not between 0 (no limit) and 1000")));
    }
    Some(Auth { realm: file.realm, users: users?, algorithms, nonce_lifetime, wrong_max })
}

/// Checks that the domains of users are served here. Users of other domains could not register.
pub(super) fn check_domains(config: &Config, errors: &mut ConfigErrors) {
    let Some(Auth { users: Users::File(users), .. }) = &config.auth else { return };
    let aliases = &config.settings.directory.domains;
    let is_ours = |domain: &str| {
        let names = |listen: &Listen| listen.host().eq_ignore_ascii_case(domain);
        config.settings.domains.iter().any(|ours| ours == domain) || config.listen.iter().any(names)
    };
    let mut all: Vec<(usize, &str)> = users.domains().map(|(domain, line)| (line, domain)).collect();
    all.sort_unstable();
    for (line, domain) in all {
        if let Some(other) = aliases.get(domain) {
            errors.add(wrong("auth.users", format!("line {line}: {domain} is an alias: use {other}")));
        } else if !is_ours(domain) {
            errors.add(wrong("auth.users", format!("line {line}: {domain} is not one of `domains`")));
        }
    }
}

#[cfg(test)]
mod tests;
