//! How associations are encrypted, and who the peers are.

use std::path::PathBuf;

use strandline::encryption::{Encryption, Fingerprint, KnownHosts, Options};
use strandline_ops::{ConfigErrors, Flaw};

use super::file::{Fallback, File};
use super::{Peer, Security, flaw, wrong};
use crate::protocol::{Destination, Host};

/// The encryption of a gateway.
#[derive(Debug, Clone)]
pub(crate) struct Encrypted {
    /// For the listener, and for peers without a list of their own.
    pub(crate) shared: Encryption,
    /// Names of keys, for logs and rules.
    pub(crate) known: KnownHosts,
}

/// What the check of a configuration knows of its encryption.
pub(super) enum Trusted {
    Plain,
    Encrypted(Box<Encrypted>),
    /// The encryption is wrong, which is reported already; no further errors follow from it.
    Unknown,
}

impl Trusted {
    /// Returns whether nothing is encrypted.
    pub(super) const fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }

    /// Returns how to encrypt.
    pub(super) fn encryption(self) -> Option<Encrypted> {
        match self {
            Self::Encrypted(encrypted) => Some(*encrypted),
            Self::Plain | Self::Unknown => None,
        }
    }
}

/// Returns how to encrypt: with the key that is named, or else with the default one if it exists.
pub(super) fn check(file: &File, default_key: Option<PathBuf>, errors: &mut ConfigErrors) -> Trusted {
    let table = file.encryption.clone().unwrap_or_default();
    let is_named = file.encryption.is_some() || file.peer.iter().any(|peer| !peer.trust.is_empty());
    if file.insecure && is_named {
        let message = "nothing is encrypted with it: remove it, or [encryption] and the peers' trust";
        errors.add(wrong("insecure", message));
        return Trusted::Unknown;
    }
    let key = table.key.or_else(|| default_key.filter(|path| path.exists()));
    if file.insecure || (key.is_none() && !is_named) {
        return Trusted::Plain;
    }
    match (Options { key, trust: table.trust }).load() {
        Ok(shared) => {
            let known = shared.known_hosts().unwrap_or_default();
            Trusted::Encrypted(Box::new(Encrypted { shared, known }))
        }
        Err(error) => {
            errors.add(wrong("encryption", error.to_string()));
            Trusted::Unknown
        }
    }
}

/// Returns how the association with a peer is encrypted, and adds the names in its own list to those that are known.
pub(super) fn check_peer(
    at: usize,
    file: &File,
    trusted: &mut Trusted,
    errors: &mut ConfigErrors,
) -> Security {
    let Some(peer) = file.peer.get(at) else { return Security::Plain };
    let key = |name: &str| format!("peer[{at}].{name}");
    if peer.insecure && !peer.trust.is_empty() && !trusted.is_plain() {
        errors.add(wrong(key("insecure"), "nothing is encrypted with it: remove it, or trust"));
        return Security::Plain;
    }
    let encrypted = match trusted {
        Trusted::Encrypted(encrypted) if !peer.insecure => encrypted,
        _ => return Security::Plain,
    };
    if peer.trust.is_empty() {
        return Security::Shared;
    }
    let table = file.encryption.clone().unwrap_or_default();
    match (Options { key: table.key, trust: peer.trust.clone() }).load() {
        Ok(own) => {
            if let Some(listed) = own.known_hosts() {
                encrypted.known.extend(listed.hosts().cloned());
            }
            Security::Own(Box::new(own))
        }
        Err(error) => {
            errors.add(wrong(key("trust"), error.to_string()));
            Security::Plain
        }
    }
}

/// Returns the keys that a rule is for: fingerprints, and all those of known hosts by their names.
pub(super) fn check_keys(
    key: &str,
    texts: &[String],
    trusted: &Trusted,
    errors: &mut ConfigErrors,
) -> Vec<Fingerprint> {
    let encrypted = match trusted {
        Trusted::Encrypted(encrypted) => encrypted,
        Trusted::Unknown => return Vec::new(),
        Trusted::Plain => {
            if !texts.is_empty() {
                errors.add(wrong(key, "peers have no keys: nothing is encrypted"));
            }
            return Vec::new();
        }
    };
    let mut keys = Vec::new();
    for text in texts {
        if text.starts_with("SHA256:") {
            let parsed: Result<Fingerprint, _> = text.parse();
            keys.extend(errors.take(parsed.map_err(|error| wrong(key, format!("`{text}`: {error}")))));
            continue;
        }
        let before = keys.len();
        let of_name = encrypted.known.hosts().filter(|host| host.name.eq_ignore_ascii_case(text));
        keys.extend(of_name.map(|host| host.fingerprint));
        if keys.len() == before {
            let message =
                format!("no known host has the name `{text}`: strandline trust add {text} SHA256:...");
            errors.add(wrong(key, message));
        }
    }
    keys
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
