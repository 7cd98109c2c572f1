//! Requests, redirections and credentials.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Empty;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, IF_RANGE, RANGE, USER_AGENT};
use hyper::{Request, Uri};
use percent_encoding::percent_decode_str;
use url::Url;

use super::failure::Failure;

/// The user and password of a URL, for Basic authentication (RFC 7617), and the server that may learn them.
#[derive(Debug, Clone)]
pub(super) struct Credentials {
    server: (String, String, Option<u16>),
    value: HeaderValue,
}

impl Credentials {
    /// Returns those of a URL; `None` if it has none.
    pub(super) fn of(url: &Url) -> Option<Self> {
        if url.username().is_empty() && url.password().is_none() {
            return None;
        }
        let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
        pair.push(b':');
        pair.extend(percent_decode_str(url.password().unwrap_or_default()));
        let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok()?;
        value.set_sensitive(true);
        Some(Self { server: server(url), value })
    }

    /// Returns those for a URL that a redirection leads to: its own, or these if it is on the same server.
    pub(super) fn after(self, url: &Url) -> Option<Self> {
        Self::of(url).or_else(|| (self.server == server(url)).then_some(self))
    }
}

fn server(url: &Url) -> (String, String, Option<u16>) {
    let host = url.host_str().unwrap_or_default();
    (url.scheme().to_owned(), host.to_owned(), url.port_or_known_default())
}

/// Returns a URL for reports, in which nobody reads a password.
pub(super) fn without_password(url: &Url) -> Url {
    let mut shown = url.clone();
    if shown.password().is_some() {
        // An error says that the URL has no host.
        let _ = shown.set_password(Some("***"));
    }
    shown
}

/// Returns where a redirection leads.
pub(super) fn redirected(from: &Url, location: &HeaderValue) -> Result<Url, Failure> {
    let to = location.to_str().map_err(|error| Failure::Url(error.to_string()))?;
    let url = from.join(to).map_err(|error| Failure::Url(error.to_string()))?;
    match url.scheme() {
        "http" | "https" | "http+sctp" => Ok(url),
        other => Err(Failure::Scheme(other.to_owned())),
    }
}

/// Builds the request for a URL, from a byte on, if the file is the one that `validator` names.
pub(super) fn request(
    url: &Url,
    have: u64,
    validator: Option<&HeaderValue>,
    credentials: Option<&Credentials>,
) -> Result<Request<Empty<Bytes>>, Failure> {
    let invalid = |error: hyper::http::Error| Failure::Url(error.to_string());
    let mut bare = url.clone();
    bare.set_fragment(None);
    // Errors say that the URL has no host.
    let _ = (bare.set_username(""), bare.set_password(None));
    let uri: Uri = bare.as_str().parse().map_err(|error| invalid(hyper::http::Error::from(error)))?;
    let host = url.host_str().unwrap_or_default();
    let host = url.port().map_or(host.to_owned(), |port| format!("{host}:{port}"));
    let version = concat!("strandline/", env!("CARGO_PKG_VERSION"));
    let mut request = Request::get(uri).header(HOST, host).header(USER_AGENT, version);
    if let Some(credentials) = credentials {
        request = request.header(AUTHORIZATION, &credentials.value);
    }
    if have > 0 {
        request = request.header(RANGE, format!("bytes={have}-"));
        if let Some(validator) = validator {
            request = request.header(IF_RANGE, validator);
        }
    }
    request.body(Empty::new()).map_err(invalid)
}

#[cfg(test)]
mod tests;
