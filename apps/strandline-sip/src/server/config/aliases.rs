//! `[aliases]`: aliases of domains and users.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use crate::bindings::write_aor;
use crate::codec::Uri;
use crate::service::Alias;
use crate::transaction::Protocol;

use super::error::{ConfigErrors, wrong};
use super::host::check_domain;
use super::routes::reached;

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    // In an order that each run has.
    domains: BTreeMap<String, String>,
    users: BTreeMap<String, Vec<String>>,
}

/// The aliases of domains.
pub(super) fn domains(file: &Table, ours: &[String], errors: &mut ConfigErrors) -> HashMap<String, String> {
    let mut domains = HashMap::new();
    for (name, other) in &file.domains {
        let key = format!("aliases.domains.{name:?}");
        let checked = [name, other].map(|domain| errors.take(check_domain(&key, domain)));
        let [Some(name), Some(other)] = checked else { continue };
        if !ours.contains(&other) || ours.contains(&name) {
            let message =
                format!("{name:?} = {other:?}: the first must not be one of `domains`, the second must be");
            errors.add(wrong(key, message));
        }
        domains.insert(name, other);
    }
    domains
}

/// The aliases of users: for users of the domains in `ours`, and their targets. `names`: whether names are resolved.
pub(super) fn users(
    file: &Table,
    ours: &[String],
    names: bool,
    errors: &mut ConfigErrors,
) -> HashMap<Vec<u8>, Vec<Alias>> {
    let mut users = HashMap::new();
    for (name, others) in &file.users {
        let key = user_key(name);
        let of = |text: &str| read(text, ours, names).map_err(|message| wrong(key.as_str(), message));
        let alias = errors.take(of(name));
        let aliases: Vec<Alias> = others.iter().filter_map(|other| errors.take(of(other))).collect();
        let mut add = |message: String| errors.add(wrong(key.as_str(), message));
        if others.is_empty() {
            add(format!("{name:?} has no target"));
        }
        match alias {
            Some(alias @ Alias::User(_)) if others.len() == 1 && aliases.contains(&alias) => {
                add(format!("{name:?} is an alias of itself"));
            }
            Some(Alias::User(aor)) => drop(users.insert(aor, aliases)),
            Some(Alias::Uri(_)) => add(format!("the domain of {name:?} is not one of `domains`")),
            None => {}
        }
    }
    users
}

/// The key of an alias, for errors.
fn user_key(name: &str) -> String {
    format!("aliases.users.{name:?}")
}

/// Checks that the server can send over the transports of the targets.
pub(super) fn check_reached(
    file: &Table,
    ours: &[String],
    names: bool,
    listens: &[Protocol],
    errors: &mut ConfigErrors,
) {
    for (name, others) in &file.users {
        for other in others {
            // Others have been reported.
            let Ok(Alias::Uri(uri)) = read(other, ours, names) else { continue };
            if let Err(message) = reached(&String::from_utf8_lossy(&uri), listens) {
                errors.add(wrong(user_key(name), message));
            }
        }
    }
}

fn has_scheme(text: &str) -> bool {
    text.starts_with("sip:") || text.starts_with("sips:")
}

fn read(text: &str, ours: &[String], names: bool) -> Result<Alias, String> {
    let form = || {
        format!("expected an address such as \"alice@example.com\" or \"sip:desk@192.0.2.9\", not {text:?}")
    };
    let has_scheme = has_scheme(text);
    let whole = if has_scheme { text.to_owned() } else { format!("sip:{text}") };
    let Ok(Uri::Sip(uri)) = Uri::parse(whole.as_bytes()) else { return Err(form()) };
    if uri.user.is_none() {
        return Err(form());
    }
    let host = uri.host.to_string().to_ascii_lowercase();
    if ours.contains(&host) {
        let mut aor = Vec::new();
        write_aor(&uri, &mut aor);
        return Ok(Alias::User(aor));
    }
    // A target without scheme is a local user. Other targets need a scheme.
    if uri.host.ip().is_none() && !(names && has_scheme) {
        let message = if names {
            format!("{text:?}: {host} is not one of `domains`; for another domain write \"sip:{text}\"")
        } else {
            format!(
                "{text:?}: {host} is neither one of `domains` nor an IP address, and dns.enabled is false"
            )
        };
        return Err(message);
    }
    Ok(Alias::Uri(whole.into_bytes()))
}
