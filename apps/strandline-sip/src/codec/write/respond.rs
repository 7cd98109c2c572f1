//! Responses to requests (RFC 3261 section 8.2.6).

use core::net::SocketAddr;

use bytes::BytesMut;

use crate::codec::cursor::Cursor;
use crate::codec::header::address::Address;
use crate::codec::header::params::without_empty_param;
use crate::codec::message::{Header, Message};
use crate::codec::name::HeaderName;
use crate::codec::status::StatusCode;

use super::build::MessageWriter;
use super::source::notes;
use super::{WriteError, check_name};

/// Describes a response to a request. Via, From, To, Call-ID and CSeq are copied from the request, byte for
/// byte.
///
/// ```
/// use bytes::BytesMut;
/// use strandline_sip::codec::{Index, Message, Reply, StatusCode};
///
/// let bytes = b"OPTIONS sip:example.com SIP/2.0\r\n\
///     Via: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bK1;rport\r\n\
///     To: <sip:b@example.com>\r\nFrom: <sip:a@example.com>;tag=1\r\ni: c\r\nCSeq: 7 OPTIONS\r\n\r\n";
/// let mut index = Index::new();
/// let request = Message::parse(bytes, &mut index).map_err(|rejected| rejected.error)?;
/// let mut out = BytesMut::new();
/// let reply = Reply { to_tag: Some(b"z"), source: "192.0.2.1:9".parse().ok(), ..Reply::new(StatusCode::OK) };
/// reply.write(&request, &mut out).finish(b"")?;
/// assert_eq!(
///     &out[..],
///     b"SIP/2.0 200 OK\r\n\
///     Via: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bK1;rport=9;received=192.0.2.1\r\n\
///     From: <sip:a@example.com>;tag=1\r\nTo: <sip:b@example.com>;tag=z\r\ni: c\r\nCSeq: 7 OPTIONS\r\n\
///     Content-Length: 0\r\n\r\n",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// The status code.
    pub code: StatusCode,
    /// The reason phrase; `None` for the usual one.
    pub reason: Option<&'a [u8]>,
    /// The tag to add to a To that has none. A 100 response needs none.
    pub to_tag: Option<&'a [u8]>,
    /// The source address of the request, to be recorded in the topmost Via.
    pub source: Option<SocketAddr>,
    /// Whether to copy Record-Route, as a response that creates a dialog must (section 12.1.1).
    pub record_routes: bool,
}

impl Reply<'_> {
    /// Creates a response with this code and nothing added.
    #[must_use]
    pub const fn new(code: StatusCode) -> Self {
        Self { code, reason: None, to_tag: None, source: None, record_routes: false }
    }

    /// Writes the first line and the headers that come from the request; the caller adds the rest. The
    /// request may be one that was rejected: headers that it lacks are left out.
    pub fn write<'b>(&self, request: &Message<'_>, out: &'b mut BytesMut) -> MessageWriter<'b> {
        let mut writer = match self.reason {
            None => MessageWriter::usual_response(out, self.code),
            Some(reason) => MessageWriter::response(out, self.code, reason),
        };
        let mut lines = Lines { bytes: request.bytes, writer: &mut writer, from: 0, to: 0 };
        self.vias(request, &mut lines);
        if self.record_routes {
            for line in request.lines(HeaderName::RecordRoute) {
                lines.copy(&line);
            }
        }
        let first = |name| request.lines(name).next();
        if let Some(from) = first(HeaderName::From) {
            lines.copy_address(&from);
        }
        if let Some(to) = first(HeaderName::To) {
            self.to(&to, &mut lines);
        }
        for name in [HeaderName::CallId, HeaderName::CSeq] {
            if let Some(line) = first(name) {
                lines.copy(&line);
            }
        }
        if self.code == StatusCode::TRYING
            && let Some(line) = first(HeaderName::Timestamp)
        {
            lines.copy(&line);
        }
        lines.flush();
        writer
    }

    fn vias(&self, request: &Message<'_>, lines: &mut Lines<'_, '_, '_>) {
        let mut vias = request.lines(HeaderName::Via);
        let Some(top) = vias.next() else { return };
        let (mut at, end) = (top.offset(), top.end());
        if let Some(source) = self.source {
            for (start, after, note) in notes(request, source).into_iter().flatten() {
                lines.range(at, start);
                note.write(lines.buffer());
                at = after;
            }
        }
        lines.range(at, end);
        for line in vias {
            lines.copy(&line);
        }
    }

    /// Copies To, and adds the tag if it has none. A malformed To is copied unchanged.
    fn to(&self, to: &Header<'_>, lines: &mut Lines<'_, '_, '_>) {
        let untagged = || is_bracketed(to) || to.parse::<Address<'_>>().is_ok_and(|to| to.tag.is_none());
        let Some(tag) = self.to_tag.filter(|_| untagged()) else { return lines.copy_address(to) };
        lines.writer.check(check_name(tag).map_err(|_| WriteError::Name));
        lines.range(to.offset(), to.offset() + without_empty_param(to.line()).len());
        let out = lines.buffer();
        out.extend_from_slice(b";tag=");
        out.extend_from_slice(tag);
        lines.range(to.end() - b"\r\n".len(), to.end());
    }
}

/// Returns true if the value is just a URI in brackets, as in most requests.
fn is_bracketed(to: &Header<'_>) -> bool {
    let mut cursor = Cursor::new(to.value(), 0);
    cursor.eat(b'<') && cursor.bracketed().is_ok() && cursor.peek().is_none()
}

/// Copies lines of the request; adjacent lines are copied at once.
struct Lines<'r, 'w, 'b> {
    bytes: &'r [u8],
    writer: &'w mut MessageWriter<'b>,
    /// The range that is still to be copied.
    from: usize,
    to: usize,
}

impl Lines<'_, '_, '_> {
    fn copy(&mut self, line: &Header<'_>) {
        self.range(line.offset(), line.end());
    }

    /// Copies a line without a final `;`, which other parsers may not take.
    fn copy_address(&mut self, line: &Header<'_>) {
        let (whole, kept) = (line.line().trim_ascii_end(), without_empty_param(line.line()));
        if kept.len() == whole.len() {
            return self.copy(line);
        }
        self.range(line.offset(), line.offset() + kept.len());
        self.range(line.end() - b"\r\n".len(), line.end());
    }

    fn range(&mut self, from: usize, to: usize) {
        if from != self.to {
            self.flush();
            self.from = from;
        }
        self.to = to;
    }

    fn flush(&mut self) {
        let waiting = self.bytes.get(self.from..self.to).unwrap_or(&[]);
        self.writer.buffer().extend_from_slice(waiting);
        self.from = self.to;
    }

    /// The buffer for text that doesn't come from the request.
    fn buffer(&mut self) -> &mut BytesMut {
        self.flush();
        self.writer.buffer()
    }
}

#[cfg(test)]
mod tests;
