//! Targets that CONNECT may reach.

use std::str::FromStr;

use hyper::http::uri::Authority;

use super::failure::Failure;
use crate::host;

/// Ports that may be reached at every host without an option: https and http.
const PORTS: [u16; 2] = [443, 80];

/// A host and a port, or a class of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    host: Host,
    /// `None` for any port.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Any,
    /// A name or an address, in lower case.
    Exact(String),
    /// The names that end so: with a dot and a domain, in lower case.
    Below(String),
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = text.rsplit_once(':').unwrap_or(("*", text));
        let port = match port {
            "*" => None,
            port => match host::port(port) {
                Some(port) => Some(port),
                None => {
                    return Err("expected PORT, HOST:PORT or *.DOMAIN:PORT, where PORT may be *".to_owned());
                }
            },
        };
        let host = if host.contains('*') { host.to_ascii_lowercase() } else { bare(host) };
        let host = match host.strip_prefix('*') {
            Some("") => Host::Any,
            Some(rest) if rest.len() > 1 && rest.starts_with('.') && !rest.contains('*') => {
                Host::Below(rest.to_owned())
            }
            None if !host.is_empty() && !host.contains('*') => Host::Exact(host),
            _ => return Err("a * stands for the whole host, or for what comes before .DOMAIN".to_owned()),
        };
        Ok(Self { host, port })
    }
}

impl Pattern {
    fn matches(&self, host: &str, port: u16) -> bool {
        let is_host = match &self.host {
            Host::Any => true,
            Host::Exact(exact) => host == exact,
            Host::Below(end) => host.len() > end.len() && host.ends_with(end.as_str()),
        };
        is_host && self.port.is_none_or(|wanted| wanted == port)
    }
}

/// Returns a host in lower case, without the brackets of an IPv6 address and without a last dot.
fn bare(host: &str) -> String {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// Returns the host and port of a CONNECT if they may be reached.
///
/// # Errors
/// If the port is missing or 0 (RFC 9110 section 9.3.6), or no pattern and no default allows the target.
pub(super) fn check(patterns: &[Pattern], target: &Authority) -> Result<(), Failure> {
    let Some(port) = target.port_u16().filter(|port| *port != 0) else {
        return Err(Failure::BadRequest("no HOST:PORT as its target, which CONNECT needs"));
    };
    let host = bare(target.host());
    if PORTS.contains(&port) || patterns.iter().any(|pattern| pattern.matches(&host, port)) {
        return Ok(());
    }
    let cause =
        format!("CONNECT to port {port} is not allowed: the option --allow {host}:{port} would allow it");
    Err(Failure::Forbidden(cause))
}

#[cfg(test)]
mod tests;
