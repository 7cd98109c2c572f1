//! `[[route]]`: destinations of requests that are not for local users.

use serde::Deserialize;

use crate::codec::{SipUri, Uri};
use crate::service::{Hop, Route};
use crate::transaction::Protocol;

use super::error::{ConfigErrors, wrong};
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

/// Checks the entries. `names`: whether names are resolved.
pub(super) fn check(files: &[Table], ours: &[String], names: bool, errors: &mut ConfigErrors) -> Vec<Route> {
    let mut routes = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let same = |other: &Table| {
            let domain = |table: &Table| table.domain.as_ref().map(|domain| domain.to_ascii_lowercase());
            other.prefix == file.prefix && domain(other) == domain(file)
        };
        if files.iter().take(at).any(same) {
            let message = "two routes have the same prefix and domain: merge them";
            errors.add(wrong(format!("route[{at}]"), message));
        }
        routes.push(one(at, file, ours, names, errors));
    }
    routes
}

fn one(at: usize, file: &Table, ours: &[String], names: bool, errors: &mut ConfigErrors) -> Route {
    let key = |name: &str| format!("route[{at}].{name}");
    if file.prefix.is_none() && file.domain.is_none() {
        let message = "a route requires a prefix, such as \"+44\", or a domain";
        errors.add(wrong(format!("route[{at}]"), message));
    }
    let domain = file.domain.as_ref().and_then(|domain| errors.take(check_domain(&key("domain"), domain)));
    if let Some(domain) = domain.as_ref().filter(|domain| ours.contains(domain)) {
        let message = format!("{domain:?} is one of `domains`: omit route.domain to route these");
        errors.add(wrong(key("domain"), message));
    }
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"+-_.!~*'()#".contains(&byte);
    if let Some(prefix) = file.prefix.as_ref().filter(|prefix| !prefix.bytes().all(is_fit)) {
        let message = format!(
            "{prefix:?} has characters that are not allowed in a user name: use a prefix such as \"+44\""
        );
        errors.add(wrong(key("prefix"), message));
    }
    if file.registrar && (file.domain.is_none() || file.prefix.is_some()) {
        errors.add(wrong(key("registrar"), "a registrar requires a domain and no prefix"));
    }
    if file.to.is_empty() {
        errors.add(wrong(key("to"), "at least one URI is required, such as \"sip:192.0.2.1\""));
    }
    // Hops are tried in order, unless they have explicit priorities.
    let hop = |(number, to): (usize, &To)| match to {
        To::Uri(uri) => Hop { uri: uri.clone(), priority: number as u16 },
        To::Hop(HopTable { uri, priority }) => Hop { uri: uri.clone(), priority: *priority },
    };
    let mut hops: Vec<Hop> = file.to.iter().enumerate().map(hop).collect();
    errors.take_all(&key("to"), hops.iter().map(|hop| check_hop(hop, names)));
    hops.sort_by_key(|hop| hop.priority);
    let (prefix, registrar) = (file.prefix.clone(), file.registrar);
    Route { prefix, domain, hops, registrar, offer: file.oc.map(Oc::offer) }
}

fn check_hop(hop: &Hop, names: bool) -> Result<(), String> {
    let parsed = Uri::parse(hop.uri.as_bytes());
    let Some(uri) = parsed.ok().and_then(|uri| uri.sip().copied()) else {
        return Err(format!(
            "expected a URI such as \"sip:trunk.example.net\" or \"sip:192.0.2.1:5060;transport=tcp\", not {:?}",
            hop.uri
        ));
    };
    if uri.host.ip().is_none() && !names {
        return Err(format!("{:?} has a host name, which requires dns.enabled = true", hop.uri));
    }
    Ok(())
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
pub(super) fn check_reached(files: &[Table], listens: &[Protocol], errors: &mut ConfigErrors) {
    for (at, file) in files.iter().enumerate() {
        let hops = file.to.iter().map(|to| match to {
            To::Uri(uri) | To::Hop(HopTable { uri, .. }) => reached(uri, listens),
        });
        errors.take_all(&format!("route[{at}].to"), hops);
    }
}

/// Checks that something listens for the transport of a URI. One that can't be parsed is reported elsewhere.
pub(super) fn reached(text: &str, listens: &[Protocol]) -> Result<(), String> {
    let Ok(Uri::Sip(uri)) = Uri::parse(text.as_bytes()) else { return Ok(()) };
    match protocol_of(&uri) {
        Ok(Some(protocol)) if protocol.is_websocket() => {
            Err(format!("{text:?}: WebSocket reaches only phones that have connected, not other servers"))
        }
        Ok(Some(protocol)) if !listens.contains(&protocol) => {
            let name = protocol.name();
            Err(format!("{text:?} uses {name}, but nothing listens for {name}: add a [[listen]] entry"))
        }
        Ok(_) => Ok(()),
        Err(()) => Err(format!("{text:?} has an unknown transport: use udp, tcp, tls or sctp")),
    }
}
