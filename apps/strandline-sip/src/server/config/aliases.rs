//! `[aliases]`: aliases of domains and users.

use std::collections::HashMap;

use serde::Deserialize;

use crate::bindings::write_aor;
use crate::codec::Uri;
use crate::service::Alias;

use super::error::{ConfigError, wrong};
use super::host::check_domain;

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    domains: HashMap<String, String>,
    users: HashMap<String, Vec<String>>,
}

/// The aliases of domains.
pub(super) fn domains(file: &Table, ours: &[String]) -> Result<HashMap<String, String>, ConfigError> {
    let mut domains = HashMap::new();
    for (name, other) in &file.domains {
        let (name, other) = (check_domain("aliases.domains", name)?, check_domain("aliases.domains", other)?);
        if !ours.contains(&other) || ours.contains(&name) {
            let message =
                format!("{name:?} = {other:?}: the first must not be one of `domains`, the second must be");
            return Err(wrong("aliases.domains", message));
        }
        domains.insert(name, other);
    }
    Ok(domains)
}

/// The aliases of users: for users of the domains in `ours`, and their targets.
pub(super) fn users(
    file: &Table,
    ours: &[String],
    names: bool,
) -> Result<HashMap<Vec<u8>, Vec<Alias>>, ConfigError> {
    let mut users = HashMap::new();
    for (name, others) in &file.users {
        let Alias::User(aor) = read(name, ours, names)? else {
            return Err(wrong("aliases.users", format!("the domain of {name:?} is not one of `domains`")));
        };
        if others.is_empty() {
            return Err(wrong("aliases.users", format!("{name:?} has no target")));
        }
        let others = others.iter().map(|other| read(other, ours, names)).collect::<Result<Vec<_>, _>>()?;
        if others.contains(&Alias::User(aor.clone())) && others.len() == 1 {
            return Err(wrong("aliases.users", format!("{name:?} is an alias of itself")));
        }
        users.insert(aor, others);
    }
    Ok(users)
}

fn read(text: &str, ours: &[String], names: bool) -> Result<Alias, ConfigError> {
    let form = || {
        let message = format!(
            "expected an address such as \"alice@example.com\" or \"sip:desk@192.0.2.9\", not {text:?}"
        );
        wrong("aliases.users", message)
    };
    let has_scheme = text.starts_with("sip:") || text.starts_with("sips:");
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
        return Err(wrong("aliases.users", message));
    }
    Ok(Alias::Uri(whole.into_bytes()))
}
