//! The first line of a message (RFC 3261 sections 7.1 and 7.2), which suffices to sort messages before
//! anything else is parsed.

use super::class::{self, is};
use super::cursor::{Cursor, Result};
use super::error::{Error, ErrorKind};
use super::method::Method;
use super::scan;
use super::status::StatusCode;

/// A message's first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartLine<'a> {
    /// The first line of a request.
    Request(RequestLine<'a>),
    /// The first line of a response.
    Status(StatusLine<'a>),
}

/// `Method SP Request-URI SP SIP-Version`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLine<'a> {
    /// The method.
    pub method: Method<'a>,
    /// The request URI as it was sent. [`Message::request_uri`](super::Message::request_uri) parses it.
    pub uri: &'a [u8],
    /// The position of the URI in the message.
    pub(crate) uri_at: usize,
}

/// `SIP-Version SP Status-Code SP Reason-Phrase`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusLine<'a> {
    /// The status code.
    pub code: StatusCode,
    /// The reason phrase, which may be empty and may contain UTF-8.
    pub reason: &'a [u8],
}

impl<'a> StartLine<'a> {
    /// Parses only the first line of `bytes`. CRLFs before it are skipped, as RFC 3261 section 7.5 requires.
    ///
    /// # Errors
    /// Returns an error if the line is not terminated, is not a SIP start line, has another version (505), or
    /// has an invalid status code.
    ///
    /// ```
    /// use strandline_sip::codec::{Method, StartLine};
    ///
    /// let line = StartLine::parse(b"BYE sip:a@example.com SIP/2.0\r\n")?;
    /// let StartLine::Request(line) = line else { return Err("a response".into()) };
    /// assert_eq!(line.method, Method::Bye);
    /// assert_eq!(line.uri, b"sip:a@example.com");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let start = skip_line_ends(bytes);
        let end = line_end(bytes, start)?;
        Self::parse_line(bytes.get(..end).unwrap_or(bytes), start).map_err(|rejected| rejected.error)
    }

    /// Parses the line that starts at `start` and extends to the end of `line`.
    #[inline]
    pub(crate) fn parse_line(line: &'a [u8], start: usize) -> core::result::Result<Self, RejectedLine<'a>> {
        let mut cursor = Cursor::new(line, start);
        if starts_like_a_status(cursor.rest()) {
            return status_line(cursor)
                .map(Self::Status)
                .map_err(|error| RejectedLine { error, request: None });
        }
        let reject = |cursor: Cursor<'a>, kind, request| RejectedLine { error: cursor.error(kind), request };
        let name = cursor.run(class::TOKEN);
        if name.is_empty() || !cursor.eat(b' ') {
            return Err(reject(cursor, ErrorKind::StartLine, None));
        }
        let method = Method::from_bytes(name);
        let uri_at = cursor.at();
        let uri = cursor.long_run(class::URI);
        let request = RequestLine { method, uri, uri_at };
        if uri.is_empty() || !cursor.eat(b' ') {
            // White space or brackets in the URI (RFC 4475 sections 3.1.2.7 to 3.1.2.9): still a request that
            // gets a response.
            return Err(reject(cursor, ErrorKind::Uri, Some(request)));
        }
        match cursor.rest() {
            b"SIP/2.0" => Ok(Self::Request(request)),
            rest if rest.eq_ignore_ascii_case(b"SIP/2.0") => Ok(Self::Request(request)),
            rest if is_version(rest) => Err(reject(cursor, ErrorKind::Version, Some(request))),
            _ => Err(reject(cursor, ErrorKind::StartLine, Some(request))),
        }
    }

    /// The request's method; `None` for a response.
    #[must_use]
    pub const fn method(&self) -> Option<Method<'a>> {
        match self {
            Self::Request(line) => Some(line.method),
            Self::Status(_) => None,
        }
    }
}

/// A malformed first line, with the request line as far as it could be parsed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RejectedLine<'a> {
    pub(crate) error: Error,
    pub(crate) request: Option<RequestLine<'a>>,
}

/// The position after all line ends at the start.
#[inline]
pub(crate) fn skip_line_ends(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some([b'\r', b'\n', ..]) = bytes.get(at..) {
        at += 2;
    }
    at
}

/// The end of the line that starts at `start`: the position of its CR.
#[inline]
pub(crate) fn line_end(bytes: &[u8], start: usize) -> Result<usize> {
    let mut at = start;
    loop {
        at = scan::control(bytes, at);
        match bytes.get(at..).unwrap_or(&[]) {
            [b'\r', b'\n', ..] => return Ok(at),
            [b'\t', ..] => at += 1,
            [] if start == at => return Err(Error::new(ErrorKind::Empty, at)),
            [] | [b'\r'] => return Err(Error::new(ErrorKind::HeadersUnterminated, at)),
            [b'\r' | b'\n', ..] => return Err(Error::new(ErrorKind::LineEnd, at)),
            _ => return Err(Error::new(ErrorKind::Control, at)),
        }
    }
}

/// Returns true if the line starts like a status line. No method contains a slash.
#[inline]
pub(crate) fn starts_like_a_status(line: &[u8]) -> bool {
    matches!(line, [b'S' | b's', b'I' | b'i', b'P' | b'p', b'/', ..])
}

fn is_version(text: &[u8]) -> bool {
    let mut cursor = Cursor::new(text, 0);
    let name = cursor.run(class::ALPHA);
    let digits = |cursor: &mut Cursor<'_>| !cursor.run(class::DIGIT).is_empty();
    name.eq_ignore_ascii_case(b"SIP")
        && cursor.eat(b'/')
        && digits(&mut cursor)
        && cursor.eat(b'.')
        && digits(&mut cursor)
        && cursor.rest().is_empty()
}

fn status_line(mut cursor: Cursor<'_>) -> Result<StatusLine<'_>> {
    let start = cursor.at();
    let version = cursor.rest().iter().position(|byte| *byte == b' ').unwrap_or(cursor.rest().len());
    cursor.advance(version);
    let version = cursor.since(start);
    if !version.eq_ignore_ascii_case(b"SIP/2.0") {
        let kind = if is_version(version) { ErrorKind::Version } else { ErrorKind::StartLine };
        return Err(Error::new(kind, start));
    }
    if !cursor.eat(b' ') {
        return Err(cursor.error(ErrorKind::StartLine));
    }
    let code_at = cursor.at();
    let digits = cursor.run(class::DIGIT);
    let code = match digits {
        [a, b, c] => {
            let number = [a, b, c].iter().fold(0, |value, digit| value * 10 + u16::from(**digit - b'0'));
            StatusCode::new(number)
        }
        _ => None,
    };
    let code = code.ok_or(Error::new(ErrorKind::StatusCode, code_at))?;
    // The space after the code is required even before an empty phrase, but without it the line is
    // unambiguous too.
    if !cursor.eat(b' ') && !cursor.rest().is_empty() {
        return Err(cursor.error(ErrorKind::StartLine));
    }
    let reason = cursor.rest();
    match reason.iter().position(|byte| *byte == 0x7f || (*byte < 0x20 && !is(*byte, class::SPACE))) {
        Some(at) => Err(Error::new(ErrorKind::Control, cursor.at() + at)),
        None => Ok(StatusLine { code, reason }),
    }
}
