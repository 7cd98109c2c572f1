//! Checks the host names by which requests may address the server (RFC 9110 section 7.2), and the pages from
//! which a browser may send them. Otherwise a foreign page could read responses after changing its own name
//! to resolve to the server's address (DNS rebinding).

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::{Uri, Version};

use super::Answer;

/// The names of the server.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// The configuration table with further names: `metrics` or `admin`.
    table: String,
    bound: IpAddr,
    names: Vec<String>,
}

impl Hosts {
    pub(crate) fn new(table: &str, bound: IpAddr, names: &[String]) -> Self {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { table: table.to_owned(), bound: bound.to_canonical(), names }
    }

    /// Checks Host and Origin.
    ///
    /// # Errors
    /// Returns the response for a request that is rejected: 400, 421 or 403.
    pub(crate) fn check(
        &self,
        version: Version,
        target: &Uri,
        headers: &HeaderMap<HeaderValue>,
    ) -> Result<(), Answer> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            // HTTP/1.0 clients may omit it; they are not browsers.
            (None, None) if version < Version::HTTP_11 => "localhost",
            _ => {
                return Err(Answer::error(
                    400,
                    "a request needs exactly one Host header",
                    "RFC 9112 section 3.2",
                ));
            }
        };
        // The host of an absolute target takes precedence over Host (RFC 9112 section 3.2.2).
        let host = target.authority().map_or(host, |authority| authority.as_str());
        if !self.is_own(host) {
            let hint = format!("add the name in {host:?} to {}.hosts in the configuration", self.table);
            return Err(Answer::error(421, "the Host header names another server", &hint));
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        if origins.any(|origin| !is_same(origin.to_str().unwrap_or_default(), host)) {
            return Err(Answer::error(
                403,
                "cross-origin requests are not allowed",
                "the Origin header differs from the Host header",
            ));
        }
        Ok(())
    }

    fn is_own(&self, host: &str) -> bool {
        let Some((name, _)) = split(host) else { return false };
        let name = name.to_ascii_lowercase();
        let listed = name == "localhost" || self.names.contains(&name);
        match name.parse::<IpAddr>().map(|address| address.to_canonical()) {
            _ if listed => true,
            // An attacker can't make a literal address resolve to the server. On a wildcard address, the
            // server's addresses are unknown.
            Ok(_) if self.bound.is_unspecified() => true,
            Ok(address) => address == self.bound || (address.is_loopback() && self.bound.is_loopback()),
            Err(_) => false,
        }
    }
}

/// The host, without brackets or a final dot, and the port. `None` if it is neither a name nor an address.
fn split(host: &str) -> Option<(&str, &str)> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port = rest.strip_prefix(':').unwrap_or(rest);
    let is_port =
        port.bytes().all(|byte| byte.is_ascii_digit()) && (rest.is_empty() || rest.starts_with(':'));
    let name = name.strip_suffix('.').unwrap_or(name);
    (is_port && !name.is_empty()).then_some((name, port))
}

/// Returns true if this is the origin of pages of this host (RFC 6454).
fn is_same(origin: &str, host: &str) -> bool {
    let (default, of_page) = match origin.split_once("://") {
        Some(("http", rest)) => ("80", rest),
        Some(("https", rest)) => ("443", rest),
        _ => return false,
    };
    let (Some(page), Some(own)) = (split(of_page), split(host)) else { return false };
    let port = |port: &str| if port.is_empty() { default.to_owned() } else { port.to_owned() };
    page.0.eq_ignore_ascii_case(own.0) && port(page.1) == port(own.1)
}

#[cfg(test)]
mod tests;
