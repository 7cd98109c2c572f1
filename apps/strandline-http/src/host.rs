//! Hosts and ports of requests and URLs (RFC 3986 section 3.2, RFC 9110 section 7.2, RFC 9112 section 3.2).

use std::net::Ipv6Addr;

use hyper::header::HOST;
use hyper::http::uri::Authority;
use hyper::{Request, Uri, Version};

/// Checks that a request names its host as its version demands, HTTP/1.1 exactly once, other versions at most once, and
/// that an absolute target or `:authority` is a host with or without a port.
///
/// # Errors
/// With what the request has instead.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), &'static str> {
    if request.uri().authority().is_some_and(|authority| !is_authority(authority)) {
        return Err("a malformed host or port in its target");
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if request.version() == Version::HTTP_11 => Err("no Host"),
        (None, _) => Ok(()),
        (Some(_), Some(_)) => Err("more than one Host"),
        (Some(host), None) if is_host(host.as_bytes()) => Ok(()),
        (Some(_), None) => Err("a malformed Host"),
    }
}

/// Returns whether this is a host with or without a port, after a user if there is one. The parser of URIs
/// accepts any port.
pub(crate) fn is_authority(authority: &Authority) -> bool {
    let host = authority.as_str().rsplit('@').next().unwrap_or_default();
    !host.is_empty() && is_host(host.as_bytes())
}

/// Returns the port of a URI, or the default if it has none. `None` if it is malformed.
pub(crate) fn port_of(uri: &Uri, default: u16) -> Option<u16> {
    let authority = uri.authority()?;
    is_authority(authority).then(|| authority.port_u16().unwrap_or(default))
}

/// Parses the port of a server: digits alone, without a sign, and not 0.
pub(crate) fn port(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port != 0)
}

/// Returns whether this is a host with or without a port (RFC 3986 section 3.2), or empty, as it is if the
/// target has no authority.
fn is_host(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    if text.is_empty() {
        return true;
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(literal) => {
            let Some((address, rest)) = literal.split_once(']') else { return false };
            let port = if rest.is_empty() { Some("") } else { rest.strip_prefix(':') };
            return address.parse::<Ipv6Addr>().is_ok() && port.is_some_and(is_port);
        }
        None => text.rsplit_once(':').unwrap_or((text, "")),
    };
    !host.is_empty() && is_name(host.as_bytes()) && is_port(port)
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && (text.is_empty() || text.parse::<u16>().is_ok())
}

/// Returns whether this is a registered name or an IPv4 address.
fn is_name(mut name: &[u8]) -> bool {
    loop {
        name = match name {
            [] => return true,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest,
            [byte, rest @ ..] if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte) => rest,
            _ => return false,
        };
    }
}

#[cfg(test)]
mod tests;
