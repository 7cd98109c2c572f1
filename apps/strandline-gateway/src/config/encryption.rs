//! How associations are encrypted, and who the peers are.

use std::path::PathBuf;

use strandline::encryption::{Encryption, Fingerprint, KnownHosts, Options};
use strandline_ops::Flaw;

use super::file::{Fallback, File};
use super::{ConfigError, Peer, Security, flaw, wrong};
use crate::protocol::{Destination, Host};

/// The encryption of a gateway.
#[derive(Debug, Clone)]
pub(crate) struct Encrypted {
    /// For the listener, and for peers without a list of their own.
    pub(crate) shared: Encryption,
    /// Names of keys, for logs and rules.
    pub(crate) known: KnownHosts,
}

/// Returns how to encrypt: with the key that is named, or else with the default one if it exists. `None` if nothing is.
pub(super) fn check(file: &File, default_key: Option<PathBuf>) -> Result<Option<Encrypted>, ConfigError> {
    let table = file.encryption.clone().unwrap_or_default();
    let is_named = file.encryption.is_some() || file.peer.iter().any(|peer| !peer.trust.is_empty());
    if file.insecure {
        if is_named {
            let message = "nothing is encrypted with it: remove it, or [encryption] and the peers' trust";
            return Err(wrong("insecure", message));
        }
        return Ok(None);
    }
    let key = table.key.or_else(|| default_key.filter(|path| path.exists()));
    if key.is_none() && !is_named {
        return Ok(None);
    }
    let failed = |error: strandline::encryption::OptionsError| wrong("encryption", error.to_string());
    let shared = Options { key, trust: table.trust }.load().map_err(failed)?;
    let known = shared.known_hosts().unwrap_or_default();
    Ok(Some(Encrypted { shared, known }))
}

/// Returns how the association with a peer is encrypted, and adds the names in its own list to those that are known.
pub(super) fn check_peer(
    at: usize,
    file: &File,
    encrypted: &mut Option<Encrypted>,
) -> Result<Security, ConfigError> {
    let Some(peer) = file.peer.get(at) else { return Ok(Security::Plain) };
    let key = |name: &str| format!("peer[{at}].{name}");
    let encrypted = match encrypted {
        None => return Ok(Security::Plain),
        Some(_) if peer.insecure && peer.trust.is_empty() => return Ok(Security::Plain),
        Some(_) if peer.insecure => {
            return Err(wrong(key("insecure"), "nothing is encrypted with it: remove it, or trust"));
        }
        Some(encrypted) => encrypted,
    };
    if peer.trust.is_empty() {
        return Ok(Security::Shared);
    }
    let table = file.encryption.clone().unwrap_or_default();
    let own = Options { key: table.key, trust: peer.trust.clone() }.load();
    let own = own.map_err(|error| wrong(key("trust"), error.to_string()))?;
    if let Some(listed) = own.known_hosts() {
        encrypted.known.extend(listed.hosts().cloned());
    }
    Ok(Security::Own(Box::new(own)))
}

/// Returns the keys that a rule is for: fingerprints, and all those of known hosts by their names.
pub(super) fn check_keys(
    key: &str,
    texts: &[String],
    encrypted: Option<&Encrypted>,
) -> Result<Vec<Fingerprint>, ConfigError> {
    let mut keys = Vec::new();
    for text in texts {
        let Some(encrypted) = encrypted else {
            return Err(wrong(key, "peers have no keys: nothing is encrypted"));
        };
        if text.starts_with("SHA256:") {
            keys.push(text.parse().map_err(|error| wrong(key, format!("`{text}`: {error}")))?);
            continue;
        }
        let before = keys.len();
        let of_name = encrypted.known.hosts().filter(|host| host.name.eq_ignore_ascii_case(text));
        keys.extend(of_name.map(|host| host.fingerprint));
        if keys.len() == before {
            let message =
                format!("no known host has the name `{text}`: strandline trust add {text} SHA256:...");
            return Err(wrong(key, message));
        }
    }
    Ok(keys)
}

/// Returns what is allowed, but worth a warning.
pub(super) fn flaws(file: &File, encrypted: Option<&Encrypted>, peers: &[Peer]) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    if encrypted.is_some_and(|encrypted| encrypted.shared.trusts_nobody())
        && (file.listen.is_some() || peers.iter().any(|peer| matches!(peer.security, Security::Shared)))
    {
        let text = "no peer is trusted: strandline trust add NAME SHA256:..., or --trust";
        flaws.push(flaw("encryption.trust", text));
    }
    let is_far = |to: &Destination| match &to.host {
        Host::Ip(ip) => !ip.to_canonical().is_loopback(),
        Host::Name(name) => &**name != "localhost",
    };
    for peer in peers.iter().filter(|peer| matches!(peer.security, Security::Plain)) {
        if peer.addresses.iter().any(is_far) {
            let text = format!("packets to `{}` are not encrypted: strandline keygen makes a key", peer.name);
            flaws.push(flaw("peer", &text));
        }
    }
    for peer in peers.iter().filter(|peer| !matches!(peer.security, Security::Plain)) {
        if peer.fallback == Fallback::Tcp {
            let text = format!(
                "connections by `{}` that go directly over TCP are not encrypted: fallback = \"none\" has none of them",
                peer.name
            );
            flaws.push(flaw("peer.fallback", &text));
        }
    }
    flaws
}
