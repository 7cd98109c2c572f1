//! `[dns]`: name resolution.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::Deserialize;

use crate::server::dns::Dns;

use super::error::{ConfigError, ConfigErrors, in_range, wrong};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    enabled: bool,
    servers: Vec<String>,
    timeout_ms: u64,
    cache_max: usize,
    hosts: bool,
}

impl Default for Table {
    fn default() -> Self {
        Self { enabled: true, servers: Vec::new(), timeout_ms: 2000, cache_max: 10_000, hosts: true }
    }
}

/// Maximum number of name servers.
const SERVERS_MAX: usize = 8;
/// The port of DNS (RFC 1035 section 4.2).
const DNS_PORT: u16 = 53;

/// Checks the table. Returns `None` if names are not resolved.
pub(super) fn check(file: &Table, errors: &mut ConfigErrors) -> Option<Dns> {
    let servers: Vec<SocketAddr> = file.servers.iter().filter_map(|text| errors.take(server(text))).collect();
    if file.servers.len() > SERVERS_MAX {
        let message = format!("{} servers: at most {SERVERS_MAX} are allowed", file.servers.len());
        errors.add(wrong("dns.servers", message));
    }
    let defaults = Table::default();
    let millis = in_range("dns.timeout_ms", Some(file.timeout_ms), defaults.timeout_ms, 100..=10_000, errors);
    let cache_max =
        in_range("dns.cache_max", Some(file.cache_max), defaults.cache_max, 16..=1_000_000, errors);
    let dns = Dns { servers, timeout: Duration::from_millis(millis), cache_max, hosts: file.hosts };
    Some(dns).filter(|_| file.enabled)
}

/// Parses an address with an optional port.
fn server(text: &str) -> Result<SocketAddr, ConfigError> {
    let bare = text.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, DNS_PORT));
    let server = bare.or_else(|| text.parse().ok());
    // The resolver library doesn't support zones.
    let is_fit =
        |server: &SocketAddr| server.port() != 0 && !server.ip().is_unspecified() && !is_link_local(server);
    server.filter(is_fit).ok_or_else(|| {
        wrong(
            "dns.servers",
            format!("expected an address such as \"192.0.2.53\", \"192.0.2.53:5353\" or \"[2001:db8::53]:53\", not {text:?}"),
        )
    })
}

fn is_link_local(server: &SocketAddr) -> bool {
    matches!(server, SocketAddr::V6(v6) if v6.ip().is_unicast_link_local())
}
