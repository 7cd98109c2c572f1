//! What a request may address the server by (RFC 9110 section 7.2), and from which pages a browser may ask. Without that a page
//! elsewhere reads answers once its own name resolves to the server's address (DNS rebinding).

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::{Uri, Version};

use super::Answer;

/// What the server goes by.
#[derive(Debug)]
pub(super) struct Hosts {
    /// The table that names others: `metrics` or `admin`.
    table: String,
    bound: IpAddr,
    names: Vec<String>,
}

impl Hosts {
    pub(super) fn new(table: &str, bound: IpAddr, names: &[String]) -> Self {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { table: table.to_owned(), bound: bound.to_canonical(), names }
    }

    /// Checks Host and Origin.
    ///
    /// # Errors
    /// The answer for a request that may not be served: 400, 421 or 403.
    pub(super) fn check(
        &self,
        version: Version,
        target: &Uri,
        headers: &HeaderMap<HeaderValue>,
    ) -> Result<(), Answer> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            // Clients of HTTP/1.0 may leave it out, and browsers are none.
            (None, None) if version < Version::HTTP_11 => "localhost",
            _ => return Err(Answer::error(400, "a request has one Host", "RFC 9112 section 3.2")),
        };
        // What an absolute target says counts instead of Host (RFC 9112 section 3.2.2).
        let host = target.authority().map_or(host, |authority| authority.as_str());
        if !self.is_own(host) {
            let hint = format!("add the name of {host:?} to {}.hosts in the configuration", self.table);
            return Err(Answer::error(421, "the server is not known by this Host", &hint));
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        if origins.any(|origin| !is_same(origin.to_str().unwrap_or_default(), host)) {
            return Err(Answer::error(
                403,
                "pages from elsewhere may not ask",
                "their Origin is not this Host",
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
            // An address is no name that somebody else resolves. Which of them lead here is unknown.
            Ok(_) if self.bound.is_unspecified() => true,
            Ok(address) => address == self.bound || (address.is_loopback() && self.bound.is_loopback()),
            Err(_) => false,
        }
    }
}

/// A host without brackets or a final dot, and its port. `None` if it is neither a name nor an address.
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

/// Is this origin that of pages of this host (RFC 6454)?
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
