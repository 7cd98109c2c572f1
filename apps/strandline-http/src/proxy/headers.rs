//! Headers that a proxy takes away and adds (RFC 9110 section 7.6, RFC 7239).

use std::net::IpAddr;

use hyper::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue,
    MAX_FORWARDS, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE, VIA,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Version};

use super::failure::Failure;
use crate::exchange::AboutServer;
use crate::front::log::{Sender, Transport};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Headers of one connection only, besides those that Connection lists.
const HOP_BY_HOP: [HeaderName; 10] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authentication-info"),
    HeaderName::from_static("proxy-connection"),
];

/// What was learned of a message while the headers of its connection were removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Hop {
    /// The protocol that Upgrade names, if Connection lists it.
    pub(super) upgrade: Option<HeaderValue>,
    /// Whether the sender accepts trailers.
    pub(super) takes_trailers: bool,
}

/// Returns the elements of the lists in all headers of a name.
fn elements<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|element| !element.is_empty())
}

fn has_element(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    elements(headers, name).any(|element| element.eq_ignore_ascii_case(wanted))
}

/// Removes the headers of one connection.
pub(super) fn strip(headers: &mut HeaderMap) -> Hop {
    let upgrade = headers.get(UPGRADE).filter(|_| has_element(headers, &CONNECTION, "upgrade")).cloned();
    let takes_trailers =
        elements(headers, &TE).any(|te| te.split(';').next().is_some_and(|te| te.trim() == "trailers"));
    let listed: Vec<HeaderName> =
        elements(headers, &CONNECTION).filter_map(|name| name.parse().ok()).collect();
    for name in listed.iter().chain(&HOP_BY_HOP) {
        // Host is no header of a connection, whatever Connection says.
        if name != HOST {
            headers.remove(name);
        }
    }
    Hop { upgrade, takes_trailers }
}

/// Checks what hyper leaves to its user: the framing and the host of a request.
pub(super) fn check<B>(request: &Request<B>) -> Result<(), Failure> {
    let headers = request.headers();
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next()
        && (codings.next().is_some() || !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))
    {
        return Err(Failure::NotImplemented("the only transfer coding of this proxy is chunked"));
    }
    crate::host::check(request).map_err(Failure::BadRequest)
}

/// Leaves a response the length that counts: none beside a transfer coding (RFC 9112 section 6.3), and one of several
/// equal ones (RFC 9110 section 8.6). hyper has read the body by it, and keeps the header as it came.
pub(super) fn settle_length(headers: &mut HeaderMap) {
    if !headers.contains_key(CONTENT_LENGTH) {
        return;
    }
    let mut lengths: Vec<Option<u64>> =
        elements(headers, &CONTENT_LENGTH).map(|length| length.parse().ok()).collect();
    lengths.dedup();
    match lengths[..] {
        [Some(length)] if !headers.contains_key(TRANSFER_ENCODING) => {
            headers.insert(CONTENT_LENGTH, length.into())
        }
        _ => headers.remove(CONTENT_LENGTH),
    };
}

/// Returns whether a request is about a whole server: OPTIONS of `*`, or of an absolute target without a path
/// and a query (RFC 9112 section 3.2.4).
pub(super) fn is_about_server(head: &Parts) -> bool {
    let is_named = head.uri.path() == "*" || head.extensions.get::<AboutServer>().is_some();
    head.method == Method::OPTIONS && is_named
}

/// Returns whether a client waits for 100 before it sends the body.
pub(super) fn expects_continue(headers: &HeaderMap) -> Result<bool, Failure> {
    match headers.get(EXPECT) {
        None => Ok(false),
        Some(value) if value.as_bytes().eq_ignore_ascii_case(b"100-continue") => Ok(true),
        Some(_) => Err(Failure::Expectation),
    }
}

/// Counts Max-Forwards down (RFC 9110 section 7.6.2). Returns whether this server is the final recipient.
pub(super) fn count_down(method: &Method, headers: &mut HeaderMap) -> Result<bool, Failure> {
    if *method != Method::OPTIONS && *method != Method::TRACE {
        return Ok(false);
    }
    let Some(value) = headers.get(MAX_FORWARDS) else { return Ok(false) };
    let text = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(left) = text.and_then(|text| text.parse::<u64>().ok()) else {
        return Err(Failure::BadRequest("a malformed Max-Forwards"));
    };
    match left.checked_sub(1) {
        None => Ok(true),
        Some(left) => {
            headers.insert(MAX_FORWARDS, left.into());
            Ok(false)
        }
    }
}

/// Adds this proxy to Via (section 7.6.3).
pub(super) fn add_via(headers: &mut HeaderMap, version: Version, name: &str) {
    let version = match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2.0",
        _ => "1.1",
    };
    if let Ok(value) = HeaderValue::from_str(&format!("{version} {name}")) {
        headers.append(VIA, value);
    }
}

/// Returns whether a request has passed this proxy already.
pub(super) fn is_loop(headers: &HeaderMap, name: &str) -> bool {
    elements(headers, &VIA).any(|hop| hop.split_whitespace().nth(1).is_some_and(|by| by == name))
}

/// Tells the upstream server of the client: X-Forwarded-For, -Proto and -Host, and Forwarded (RFC 7239). What the
/// client says of clients before it is replaced, unless it is trusted.
pub(super) fn add_forwarded(headers: &mut HeaderMap, sender: Sender, host: Option<&str>, is_trusted: bool) {
    let proto = if sender.transport == Transport::Tls { "https" } else { "http" };
    let address = sender.address.map(|address| address.ip().to_canonical());
    if !is_trusted {
        for name in [FORWARDED, FORWARDED_FOR, FORWARDED_PROTO, FORWARDED_HOST] {
            headers.remove(name);
        }
    }
    let plain = address.map_or_else(|| "unknown".to_owned(), |address| address.to_string());
    let node = match address {
        Some(IpAddr::V6(address)) => format!("\"[{address}]\""),
        _ => plain.clone(),
    };
    let quoted = host.map_or(String::new(), |host| format!(";host={}", quote(host)));
    append(headers, FORWARDED, &format!("for={node}{quoted};proto={proto}"));
    append(headers, FORWARDED_FOR, &plain);
    let once = [(FORWARDED_PROTO, Some(proto)), (FORWARDED_HOST, host)];
    for (name, value) in once {
        if let Some(Ok(value)) = value.map(HeaderValue::from_str) {
            headers.entry(name).or_insert(value);
        }
    }
}

/// Adds an element to the list of a header.
fn append(headers: &mut HeaderMap, name: HeaderName, element: &str) {
    let mut list: Vec<&str> = elements_quoted(headers, &name);
    list.push(element);
    if let Ok(value) = HeaderValue::from_str(&list.join(", ")) {
        headers.insert(name, value);
    }
}

/// Returns the values of a header as they are: elements of Forwarded may hold commas within quotes.
fn elements_quoted<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a str> {
    let values = headers.get_all(name).into_iter();
    values.filter_map(|value| value.to_str().ok()).filter(|value| !value.is_empty()).collect()
}

/// Quotes a value of Forwarded if it isn't a token.
fn quote(value: &str) -> String {
    let is_token = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if is_token && !value.is_empty() {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Joins the Cookie headers of HTTP/2 (RFC 9113 section 8.2.3).
pub(super) fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().count() < 2 {
        return;
    }
    let all: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(value) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
        headers.insert(COOKIE, value);
    }
}

/// Asks the next server for what was asked of this one: an upgrade, or trailers.
pub(super) fn request_hop(headers: &mut HeaderMap, hop: &Hop) {
    if hop.takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.append(CONNECTION, HeaderValue::from_static("te"));
    }
    if let Some(upgrade) = &hop.upgrade {
        headers.insert(UPGRADE, upgrade.clone());
        headers.append(CONNECTION, HeaderValue::from_static("upgrade"));
    }
}

/// Returns whether an upgrade may be passed on. HTTP/2 without TLS may not: what follows would pass the proxy
/// unseen.
pub(super) fn may_upgrade(protocol: &HeaderValue) -> bool {
    protocol.to_str().is_ok_and(|list| {
        list.split(',').all(|one| {
            let name = one.trim();
            !name.is_empty() && !name.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("h2"))
        })
    })
}

#[cfg(test)]
mod tests;
