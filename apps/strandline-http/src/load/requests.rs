//! The requests, and how many bytes a head has.

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::ext::ReasonPhrase;
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Request, Response, Uri, Version};
use url::Url;

/// A request to one URL.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub(super) url: String,
    request: Request<Empty<Bytes>>,
    /// Bytes of the request as HTTP/1.1 writes it.
    pub(super) bytes: u64,
}

impl Prepared {
    /// Prepares the request for a URL.
    pub(super) fn new(
        url: &Url,
        headers: &[(HeaderName, HeaderValue)],
        is_http2: bool,
        keeps_alive: bool,
    ) -> Result<Self> {
        let host = url.host_str().unwrap_or_default();
        let authority = url.port().map_or(host.to_owned(), |port| format!("{host}:{port}"));
        let path = if url.path().is_empty() { "/" } else { url.path() };
        let target = url.query().map_or(path.to_owned(), |query| format!("{path}?{query}"));
        let mut all = HeaderMap::new();
        all.insert(HOST, HeaderValue::from_str(&authority)?);
        all.insert(USER_AGENT, HeaderValue::from_static(concat!("strandline/", env!("CARGO_PKG_VERSION"))));
        if !keeps_alive {
            all.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        for (name, value) in headers {
            all.append(name, value.clone());
        }
        // "GET ", the target and " HTTP/1.1", each line with its end, and the empty line.
        let bytes = 4 + target.len() + 11 + lines(&all) + 2;
        let mut request = Request::new(Empty::new());
        let uri = if is_http2 { format!("http://{authority}{target}") } else { target };
        *request.uri_mut() = uri.parse::<Uri>().with_context(|| format!("malformed URL {url}"))?;
        if is_http2 {
            // The URI has it.
            all.remove(HOST);
            *request.version_mut() = Version::HTTP_2;
        }
        *request.headers_mut() = all;
        Ok(Self { url: url.to_string(), request, bytes: bytes as u64 })
    }

    pub(super) fn request(&self) -> Request<Empty<Bytes>> {
        self.request.clone()
    }
}

/// Returns the bytes of a response's head as HTTP/1.1 writes it: status line, headers and empty line.
pub(super) fn head_bytes<B>(response: &Response<B>) -> u64 {
    let reason = match response.extensions().get::<ReasonPhrase>() {
        Some(reason) => reason.as_bytes().len(),
        None => response.status().canonical_reason().map_or(0, str::len),
    };
    // "HTTP/1.1 200 ", the reason and the end of the line.
    (13 + reason + 2 + lines(response.headers()) + 2) as u64
}

/// Returns the bytes of header lines: the name, a colon and a space, the value, and the end of the line.
fn lines(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + 2 + value.len() + 2).sum()
}

#[cfg(test)]
mod tests;
