//! A client for a server's own pages.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(3);
/// Maximum size of a response, in bytes.
const ANSWER_MAX: u64 = 16 << 20;
const HEADERS_MAX: usize = 32;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// Connecting failed, so no request was sent.
    #[error("{0}")]
    NotThere(io::Error),
    /// The request was sent; whether it took effect is unknown.
    #[error("no response within {} s", .0.as_secs_f64())]
    Late(Duration),
    /// The connection ended after the request was sent; whether it took effect is unknown.
    #[error("the connection closed before the response was complete{}", .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Ended(Option<io::Error>),
    /// The response came from another kind of server.
    #[error("the response is not that of a server's HTTP interface")]
    Other,
}

impl NoAnswer {
    /// Returns true if the request was sent, so it may have taken effect or still may.
    #[must_use]
    pub const fn may_be_done(&self) -> bool {
        matches!(self, Self::Late(_) | Self::Ended(_))
    }
}

/// Sends a request without a body. Returns the status and the body of the response.
///
/// # Errors
/// Returns an error if the server can't be reached, is another kind of server, or takes too long.
#[allow(clippy::disallowed_methods, reason = "it waits for a server in real time")]
pub fn send_request(
    address: SocketAddr,
    method: &str,
    target: &str,
    token: Option<&str>,
    timeout: Duration,
) -> Result<(u16, String), NoAnswer> {
    let until = Instant::now() + timeout;
    let mut stream =
        TcpStream::connect_timeout(&address, CONNECT.min(timeout)).map_err(NoAnswer::NotThere)?;
    let token = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    let request =
        format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\n{token}Connection: close\r\n\r\n");
    // The request is short enough for the socket buffer, even if the server doesn't read.
    stream.write_all(request.as_bytes()).map_err(|error| NoAnswer::Ended(Some(error)))?;
    let mut answer = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(NoAnswer::Late(timeout));
        }
        let mut room = [0; 16 << 10];
        match stream.set_read_timeout(Some(left)).and_then(|()| stream.read(&mut room)) {
            Ok(0) => break,
            Ok(len) => answer.extend_from_slice(room.get(..len).unwrap_or_default()),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(NoAnswer::Ended(Some(error))),
        }
        if answer.len() as u64 > ANSWER_MAX {
            return Err(NoAnswer::Other);
        }
    }
    if answer.is_empty() {
        return Err(NoAnswer::Ended(None));
    }
    let answer = parse(&answer).ok_or(NoAnswer::Other)?;
    if answer.len.is_some_and(|len| answer.body.len() < len) {
        return Err(NoAnswer::Ended(None));
    }
    Ok((answer.status, answer.body))
}

/// A response, and the expected length of its body.
struct Parsed {
    status: u16,
    body: String,
    len: Option<usize>,
}

/// Returns true if nothing has arrived yet.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Parses a response; `None` if it is malformed.
fn parse(answer: &[u8]) -> Option<Parsed> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head) = parsed.parse(answer).ok()? else { return None };
    let status = parsed.code?;
    let len = parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case("Content-Length"));
    let len = len.and_then(|header| core::str::from_utf8(header.value).ok()?.trim().parse().ok());
    let body = String::from_utf8_lossy(answer.get(head..)?).into_owned();
    Some(Parsed { status, body, len })
}

/// The body of a response.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn body(answer: &[u8]) -> Option<String> {
    parse(answer).map(|answer| answer.body)
}
