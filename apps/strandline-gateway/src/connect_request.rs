//! HTTP CONNECT (RFC 9110 section 9.3.6), the proxy's side. No I/O.

use crate::protocol::{Destination, Reason};

/// Longest head of a request, in bytes.
pub(crate) const HEAD_MAX: usize = 8192;
const HEADERS_MAX: usize = 64;

/// The answer to a request that succeeded.
pub(crate) const SUCCESS: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// What the beginning of a client's bytes is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// More bytes are needed.
    Partial,
    /// A whole head, and its length.
    Whole(Destination, usize),
    /// No request that this proxy serves: the status and the text of the answer.
    Wrong(u16, &'static str),
}

/// Parses the head of a request.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let len = match request.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Parsed::Partial,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Parsed::Wrong(431, "the head of the request is too large");
        }
        Err(_) => return Parsed::Wrong(400, "the request is malformed"),
    };
    if request.method != Some("CONNECT") {
        return Parsed::Wrong(405, "this proxy serves CONNECT only");
    }
    match request.path.and_then(|target| target.parse().ok()) {
        Some(destination) => Parsed::Whole(destination, len),
        None => Parsed::Wrong(400, "the target of CONNECT is HOST:PORT"),
    }
}

/// Returns the status for a reason.
pub(crate) const fn status(reason: Reason) -> u16 {
    match reason {
        Reason::NotAllowed => 403,
        Reason::TimedOut => 504,
        Reason::Limit => 503,
        _ => 502,
    }
}

/// Returns an answer that closes the connection, with the text as its body.
pub(crate) fn failure(status: u16, text: &str) -> Vec<u8> {
    let phrase = match status {
        400 => "Bad Request",
        403 => "Forbidden",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Bad Gateway",
    };
    let allow = if status == 405 { "Allow: CONNECT\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n{allow}\
         Connection: close\r\n\r\n{text}\n",
        text.len() + 1
    )
    .into_bytes()
}

#[cfg(test)]
mod tests;
