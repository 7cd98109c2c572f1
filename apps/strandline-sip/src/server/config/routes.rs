//! `[[route]]`: destinations of requests that are not for local users.

use serde::Deserialize;

use crate::codec::{SipUri, Uri};
use crate::service::{Alias, Directory, Hop, Route};
use crate::transaction::Protocol;

use super::error::{ConfigError, wrong};
use super::host::check_domain;
use super::overload::Oc;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    prefix: Option<String>,
    domain: Option<String>,
    to: Vec<To>,
    #[serde(default)]
    registrar: bool,
    oc: Option<Oc>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "each entry of `to` must be a SIP URI, or a table with `uri` and `priority`")]
enum To {
    Uri(String),
    Hop(HopTable),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HopTable {
    uri: String,
    priority: u16,
}

pub(super) fn check(files: &[Table], ours: &[String], names: bool) -> Result<Vec<Route>, ConfigError> {
    let route = |(number, file): (usize, &Table)| {
        one(file, ours, names).map_err(|error| match error {
            // Add the number of the entry.
            ConfigError::Value { key, message, .. } if files.len() > 1 => {
                wrong(key.replacen("route", &format!("route[{}]", number + 1), 1), message)
            }
            error => error,
        })
    };
    let routes = files.iter().enumerate().map(route).collect::<Result<Vec<_>, _>>()?;
    for (number, route) in routes.iter().enumerate() {
        let same = |other: &Route| other.prefix == route.prefix && other.domain == route.domain;
        if routes.iter().take(number).any(same) {
            return Err(wrong("route", "two routes have the same prefix and domain: merge them"));
        }
    }
    Ok(routes)
}

fn one(file: &Table, ours: &[String], names: bool) -> Result<Route, ConfigError> {
    if file.prefix.is_none() && file.domain.is_none() {
        return Err(wrong("route", "a route requires a prefix, such as \"+44\", or a domain"));
    }
    let domain = file.domain.as_ref().map(|domain| check_domain("route.domain", domain)).transpose()?;
    if let Some(domain) = domain.as_ref().filter(|domain| ours.contains(domain)) {
        return Err(wrong(
            "route.domain",
            format!("{domain:?} is one of `domains`: omit route.domain to route these"),
        ));
    }
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"+-_.!~*'()#".contains(&byte);
    if let Some(prefix) = file.prefix.as_ref().filter(|prefix| !prefix.bytes().all(is_fit)) {
        return Err(wrong(
            "route.prefix",
            format!(
                "{prefix:?} has characters that are not allowed in a user name: use a prefix such as \"+44\""
            ),
        ));
    }
    if file.registrar && (domain.is_none() || file.prefix.is_some()) {
        let message = "a registrar requires a domain and no prefix";
        return Err(wrong("route.registrar", message));
    }
    if file.to.is_empty() {
        return Err(wrong("route.to", "at least one URI is required, such as \"sip:192.0.2.1\""));
    }
    // Hops are tried in order, unless they have explicit priorities.
    let hop = |(number, to): (usize, &To)| match to {
        To::Uri(uri) => Hop { uri: uri.clone(), priority: number as u16 },
        To::Hop(HopTable { uri, priority }) => Hop { uri: uri.clone(), priority: *priority },
    };
    let mut hops: Vec<Hop> = file.to.iter().enumerate().map(hop).collect();
    for hop in &hops {
        let parsed = Uri::parse(hop.uri.as_bytes());
        let Some(uri) = parsed.ok().and_then(|uri| uri.sip().copied()) else {
            let message = format!(
                "expected a URI such as \"sip:trunk.example.net\" or \"sip:192.0.2.1:5060;transport=tcp\", not {:?}",
                hop.uri
            );
            return Err(wrong("route.to", message));
        };
        if uri.host.ip().is_none() && !names {
            let message = format!("{:?} has a host name, which requires dns.enabled = true", hop.uri);
            return Err(wrong("route.to", message));
        }
    }
    hops.sort_by_key(|hop| hop.priority);
    Ok(Route {
        prefix: file.prefix.clone(),
        domain,
        hops,
        registrar: file.registrar,
        offer: file.oc.map(Oc::offer),
    })
}

/// The protocol of a URI; `None` if DNS chooses it.
fn protocol_of(uri: &SipUri<'_>) -> Result<Option<Protocol>, ()> {
    match uri.transport() {
        _ if uri.secure => Ok(Some(Protocol::Tls)),
        Some(name) => Protocol::from_name(name).map(Some).ok_or(()),
        None if uri.host.ip().is_some() || uri.port.is_some() => Ok(Some(Protocol::Udp)),
        None => Ok(None),
    }
}

/// Checks that the server can send over the transports of the routes. It sends from its listening addresses,
/// and would otherwise have to reject each request.
pub(super) fn check_reached(directory: &Directory, listens: &[Protocol]) -> Result<(), ConfigError> {
    let hops =
        directory.routes.iter().flat_map(|route| &route.hops).map(|hop| ("route.to", hop.uri.as_bytes()));
    let aliases = directory.users.values().flatten().filter_map(|alias| match alias {
        Alias::Uri(uri) => Some(("aliases.users", uri.as_slice())),
        Alias::User(_) => None,
    });
    for (key, text) in hops.chain(aliases) {
        let Ok(Uri::Sip(uri)) = Uri::parse(text) else { continue };
        let text = String::from_utf8_lossy(text);
        let message = match protocol_of(&uri) {
            Ok(Some(protocol)) if protocol.is_websocket() => {
                format!("{text:?}: WebSocket reaches only phones that have connected, not other servers")
            }
            Ok(Some(protocol)) if !listens.contains(&protocol) => {
                let name = protocol.name();
                format!("{text:?} uses {name}, but nothing listens for {name}: add a [[listen]] entry")
            }
            Ok(_) => continue,
            Err(()) => format!("{text:?} has an unknown transport: use udp, tcp, tls or sctp"),
        };
        return Err(wrong(key, message));
    }
    Ok(())
}
