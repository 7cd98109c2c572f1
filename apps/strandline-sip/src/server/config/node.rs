//! `[node]`: this server, as one of several that share a store.

use std::time::Duration;

use serde::Deserialize;
use strandline::{Address, ParseAddressError};

use crate::service::NodeAddress;
use crate::store::NodeSettings;
use crate::transaction::Protocol;

use super::error::{ConfigError, ConfigErrors, in_range, wrong};

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    name: Option<String>,
    address: Option<String>,
    poll_ms: Option<u64>,
    lease_ms: Option<u64>,
}

/// The settings of a server without a name.
pub(super) fn alone() -> NodeSettings {
    NodeSettings {
        name: "sip".to_owned(),
        server: "sip".to_owned(),
        address: String::new(),
        zone: 0,
        poll: Duration::from_millis(30),
        lease: Duration::from_secs(3),
    }
}

/// Maximum length of a node's name, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The settings of this node, if there may be others.
pub(super) fn check(table: &Table, errors: &mut ConfigErrors) -> Option<NodeSettings> {
    let defaults = alone();
    let mut millis = |key: &str, value: Option<u64>, default: Duration, range| {
        Duration::from_millis(in_range(key, value, default.as_millis() as u64, range, errors))
    };
    let poll = millis("node.poll_ms", table.poll_ms, defaults.poll, 5..=5000);
    let lease = millis("node.lease_ms", table.lease_ms, defaults.lease, 1500..=60_000);
    let address = table.address.as_deref().and_then(|address| errors.take(read(address)));
    let Some(name) = table.name.clone() else {
        if (&table.address, table.poll_ms, table.lease_ms) != (&None, None, None) {
            errors.add(wrong("node.name", "required: a name that no other node has, such as \"a\""));
        }
        return None;
    };
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_fit) {
        let message = format!("{name:?} must be 1 to {NAME_BYTES_MAX} letters, digits, '.', '-' and '_'");
        errors.add(wrong("node.name", message));
    }
    if table.address.is_none() {
        let hint =
            "required: the address at which other nodes reach this one, such as \"tcp:192.0.2.1:5060\"";
        errors.add(wrong("node.address", hint));
    }
    let (address, zone) =
        address.map_or_else(Default::default, |read| (read.to_string(), Address::of(read.address).zone()));
    Some(NodeSettings { server: name.clone(), name, address, zone, poll, lease })
}

/// Reads `tcp:192.0.2.1:5060`, or with the zone that a link-local address needs, `tcp:[fe80::1%eth1]:5060`.
fn read(text: &str) -> Result<NodeAddress, ConfigError> {
    let form =
        || wrong("node.address", format!("expected an address such as \"tcp:192.0.2.1:5060\", not {text:?}"));
    let (protocol, address) = text.split_once(':').ok_or_else(form)?;
    let protocol = Protocol::from_name(protocol.as_bytes()).ok_or_else(form)?;
    let address = match strandline::socket_address(address) {
        Err(ParseAddressError::NoSocketAddress(_)) => Err(form()),
        read => read.map_err(|error| wrong("node.address", error.to_string())),
    }?;
    if address.port() == 0 || address.ip().is_unspecified() {
        Err(form())
    } else {
        Ok(NodeAddress { protocol, address })
    }
}

#[cfg(test)]
mod tests;
