//! Requests.

use std::borrow::Cow;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::{Method, Uri};
use subtle::ConstantTimeEq;

/// A request without a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) struct Request {
    pub(in crate::server) method: String,
    /// The decoded segments of the path; empty for `/`.
    pub(in crate::server) path: Vec<String>,
    query: Vec<(String, String)>,
    /// The token of `Authorization: Bearer`.
    token: Option<String>,
}

impl Request {
    /// Reads the head of a request. HEAD becomes GET.
    ///
    /// # Errors
    /// Returns what is wrong with the target.
    pub(in crate::server) fn of(
        method: &Method,
        target: &Uri,
        headers: &HeaderMap<HeaderValue>,
    ) -> Result<Self, &'static str> {
        let token = headers.get(AUTHORIZATION).and_then(|value| bearer(value.to_str().ok()?));
        let target = target.path_and_query().map_or("", |target| target.as_str());
        let method = if method == Method::HEAD { "GET" } else { method.as_str() };
        Ok(Self { token, ..Self::asked(method, target)? })
    }

    /// Creates a request without headers.
    ///
    /// # Errors
    /// Returns what is wrong with the target.
    pub(in crate::server) fn asked(method: &str, target: &str) -> Result<Self, &'static str> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let Some(path) = path.strip_prefix('/') else { return Err("the path must begin with /") };
        let unescaped = |text: &str| unescape(text).ok_or("invalid percent-encoding in the path or query");
        let path =
            path.split('/').filter(|part| !part.is_empty()).map(unescaped).collect::<Result<_, _>>()?;
        let query = query.split('&').filter(|part| !part.is_empty()).map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((unescaped(name)?, unescaped(value)?))
        });
        Ok(Self { method: method.to_owned(), path, query: query.collect::<Result<_, &str>>()?, token: None })
    }

    /// Returns true if the request presents this token. The comparison takes constant time.
    pub(in crate::server) fn shows(&self, token: &str) -> bool {
        let shown = self.token.as_deref().unwrap_or_default();
        !token.is_empty() && bool::from(shown.as_bytes().ct_eq(token.as_bytes()))
    }

    /// A value of the query.
    pub(in crate::server) fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// All names and values of the query.
    pub(in crate::server) fn query(&self) -> &[(String, String)] {
        &self.query
    }

    /// The path in a form for pattern matching.
    pub(in crate::server) fn parts(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }
}

/// The token of Bearer credentials (RFC 6750). The scheme is case-insensitive (RFC 9110 section 11.1).
fn bearer(credentials: &str) -> Option<String> {
    let (scheme, token) = credentials.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// Decodes escapes such as `%40`. Returns `None` if one is malformed.
fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        // The parser would accept a sign in place of a digit.
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        out.push(u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(out).ok()
}

/// Escapes a text for a path or a query.
pub(in crate::server) fn escape(text: &str) -> Cow<'_, str> {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'@' | b':');
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    Cow::Owned(text.bytes().map(one).collect())
}

#[cfg(test)]
mod tests;
