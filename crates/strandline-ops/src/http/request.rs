//! Requests.

use std::borrow::Cow;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::{Method, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use subtle::ConstantTimeEq;

/// A request without a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method, which is GET for HEAD.
    pub method: String,
    /// The decoded segments of the path; empty for `/`.
    pub path: Vec<String>,
    query: Vec<(String, String)>,
    /// The token of `Authorization: Bearer`.
    token: Option<String>,
}

impl Request {
    /// Reads the head of a request. HEAD becomes GET.
    ///
    /// # Errors
    /// Returns what is wrong with the target.
    pub fn of(method: &Method, target: &Uri, headers: &HeaderMap<HeaderValue>) -> Result<Self, &'static str> {
        let token = headers.get(AUTHORIZATION).and_then(|value| bearer(value.to_str().ok()?));
        let target = target.path_and_query().map_or("", |target| target.as_str());
        let method = if method == Method::HEAD { "GET" } else { method.as_str() };
        Ok(Self { token, ..Self::for_target(method, target)? })
    }

    /// Creates a request without headers.
    ///
    /// # Errors
    /// Returns what is wrong with the target.
    pub fn for_target(method: &str, target: &str) -> Result<Self, &'static str> {
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
    #[must_use]
    pub fn shows(&self, token: &str) -> bool {
        let shown = self.token.as_deref().unwrap_or_default();
        !token.is_empty() && bool::from(shown.as_bytes().ct_eq(token.as_bytes()))
    }

    /// The first value of this name in the query.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// All names and values of the query.
    #[must_use]
    pub fn query(&self) -> &[(String, String)] {
        &self.query
    }

    /// The encoded path and query, as in a request line.
    #[must_use]
    pub fn target(&self) -> String {
        let path: String = self.path.iter().map(|part| format!("/{}", escape(part))).collect();
        let pair = |(name, value): &(String, String)| format!("{}={}", escape(name), escape(value));
        let query: Vec<String> = self.query.iter().map(pair).collect();
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }

    /// The path in a form for pattern matching.
    #[must_use]
    pub fn parts(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }
}

/// The token of Bearer credentials (RFC 6750). The scheme is case-insensitive (RFC 9110 section 11.1).
fn bearer(credentials: &str) -> Option<String> {
    let (scheme, token) = credentials.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// Decodes escapes such as `%40`. Returns `None` if one is malformed, or the result is not valid UTF-8.
fn unescape(text: &str) -> Option<String> {
    // The decoder would keep a malformed escape as it is.
    let is_escape = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

/// Bytes that need an escape in a path or query.
const PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'@').remove(b':');

/// Escapes a text for a path or a query.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, PLAIN).into()
}

#[cfg(test)]
mod tests;
