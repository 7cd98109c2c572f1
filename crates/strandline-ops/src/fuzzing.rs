//! Fuzz targets: arbitrary bytes as a request, as a response, and as a document.
#![allow(clippy::panic, reason = "a fuzz target stops at what breaks a promise")]

use std::path::Path;

use hyper::header::{HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::{Method, Uri, Version};
use serde::Deserialize;

use crate::http::hosts::Hosts;
use crate::http::{Request, client, escape};
use crate::{ConfigError, line_of, parse_document};

/// Whole requests, request targets, and responses.
pub fn http(bytes: &[u8]) {
    if let Ok(target) = core::str::from_utf8(bytes) {
        request_target(target);
    }
    head(bytes);
    if let Some(body) = client::body(bytes) {
        // Invalid UTF-8 is replaced by a character of three bytes.
        assert!(body.len() <= 3 * bytes.len());
    }
}

/// What [`parse_document`] is given: a table of values, nested tables, and tables in an array.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Document {
    name: String,
    number: Option<u16>,
    words: Vec<String>,
    inner: Inner,
    entry: Vec<Inner>,
}

/// A table with a key that must be there.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inner {
    needed: u8,
    #[serde(default)]
    more: Option<Box<Inner>>,
}

/// Whole documents. A valid one is read as serde reads it. Errors of others are reported, each once, in the order
/// of the document, with a place in it, and with text of a limited size.
pub fn document(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let path = Path::new("a.toml");
    let error = match (toml::from_str::<Document>(text), parse_document::<Document>(path, text)) {
        (Ok(expected), Ok(document)) => return assert_eq!(document, expected),
        (Err(_), Err(error)) => error,
        (expected, parsed) => panic!("{expected:?} and {parsed:?}"),
    };
    let all = match error {
        ConfigError::Several(all) => all,
        one => vec![one],
    };
    let (mut last, mut printed) = (0, Vec::new());
    for error in &all {
        let ConfigError::Malformed { path: of, cause } = error else { panic!("{error:?}") };
        assert_eq!(of, path);
        if let Some(place) = cause.span() {
            assert!(place.start >= last && place.start <= place.end && place.end <= text.len(), "{place:?}");
            last = place.start;
        }
        let text = error.to_string();
        assert!(!text.is_empty() && text.len() <= 8192 && !printed.contains(&text), "{text}");
        printed.push(text);
    }
    // Any line, or none.
    for key in text.lines() {
        assert!(line_of(text, key).is_none_or(|line| (1..=text.lines().count()).contains(&line)), "{key}");
    }
}

/// A target that was read and written again reads the same, and everything that looks like an escape is one.
fn request_target(target: &str) {
    let Ok(request) = Request::for_target("GET", target) else { return };
    let digits = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    assert!(target.split('%').skip(1).all(digits), "{target}");
    let path: Vec<_> = request.path.iter().map(|part| escape(part)).collect();
    let query = request.query().iter().map(|(name, value)| format!("{}={}", escape(name), escape(value)));
    let query: Vec<String> = query.collect();
    let again = Request::for_target("GET", &format!("/{}?{}", path.join("/"), query.join("&")));
    assert_eq!(again, Ok(request));
}

/// A request that is accepted names the server, and doesn't come from a foreign page.
fn head(bytes: &[u8]) {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    if !parsed.parse(bytes).is_ok_and(|parsed| parsed.is_complete()) {
        return;
    }
    let Some(target) = parsed.path.and_then(|path| path.parse::<Uri>().ok()) else { return };
    let mut map = HeaderMap::new();
    for header in parsed.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(header.value)) else { return };
        map.append(name, value);
    }
    let hosts = Hosts::new("admin", [192, 0, 2, 1].into(), &["sip.example.com".to_owned()]);
    if hosts.check(Version::HTTP_11, &target, &map).is_ok() {
        let host = target.authority().map(|authority| authority.as_str().to_owned());
        let host = host.or_else(|| Some(map.get(hyper::header::HOST)?.to_str().ok()?.to_owned()));
        let host = host.unwrap_or_default().to_ascii_lowercase();
        let known = ["localhost", "sip.example.com", "192.0.2.1", "["];
        assert!(known.iter().any(|known| host.starts_with(known)), "{host}");
        for origin in map.get_all(ORIGIN) {
            assert!(origin.as_bytes().starts_with(b"http"), "{origin:?}");
        }
    }
    let method = parsed.method.and_then(|method| method.parse::<Method>().ok());
    if let Some(Ok(request)) = method.map(|method| Request::of(&method, &target, &map)) {
        assert!(!request.shows("a token that nobody shows"));
    }
}

#[cfg(test)]
mod tests;
