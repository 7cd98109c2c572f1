//! Responses to requests (RFC 3261 section 8.2.6).

use core::net::SocketAddr;

use bytes::BytesMut;

use crate::codec::message::{Header, Message};
use crate::codec::name::HeaderName;
use crate::codec::status::StatusCode;

use super::build::MessageWriter;
use super::source::notes;
use super::{WriteError, check_name};

/// How to answer a request. Via, From, To, Call-ID and CSeq are the request's, byte for byte.
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
    /// The phrase; the usual one if there is none.
    pub reason: Option<&'a [u8]>,
    /// The tag for a To that has none. A 100 needs none.
    pub to_tag: Option<&'a [u8]>,
    /// Where the request came from, to be noted in the topmost Via.
    pub source: Option<SocketAddr>,
    /// Record-Routes are copied too, as a response that makes a dialog must (section 12.1.1).
    pub record_routes: bool,
}

impl Reply<'_> {
    /// An answer with this code and nothing added.
    #[must_use]
    pub const fn new(code: StatusCode) -> Self {
        Self { code, reason: None, to_tag: None, source: None, record_routes: false }
    }

    /// Writes the first line and the headers that come from the request, and leaves the rest to the caller. The request
    /// may be one that was rejected: what is missing in it is left out.
    pub fn write<'b>(&self, request: &Message<'_>, out: &'b mut BytesMut) -> MessageWriter<'b> {
        let reason = self.reason.unwrap_or(self.code.reason().as_bytes());
        let mut writer = MessageWriter::response(out, self.code, reason);
        self.vias(request, &mut writer);
        if self.record_routes {
            for line in request.lines(HeaderName::RecordRoute) {
                writer.copy(&line);
            }
        }
        let first = |name| request.lines(name).next();
        if let Some(from) = first(HeaderName::From) {
            writer.copy(&from);
        }
        if let Some(to) = first(HeaderName::To) {
            self.to(&to, &mut writer);
        }
        let timestamp = (self.code == StatusCode::TRYING).then_some(HeaderName::Timestamp);
        for name in [HeaderName::CallId, HeaderName::CSeq].into_iter().chain(timestamp) {
            if let Some(line) = first(name) {
                writer.copy(&line);
            }
        }
        writer
    }

    fn vias(&self, request: &Message<'_>, writer: &mut MessageWriter<'_>) {
        let mut lines = request.lines(HeaderName::Via);
        if let (Some(source), Some(top)) = (self.source, lines.next()) {
            let mut at = top.offset();
            for (start, end, note) in notes_in_order(request, source) {
                writer.put(&[request.bytes.get(at..start).unwrap_or(&[])]);
                note.write(writer.buffer());
                at = end;
            }
            let line_end = top.offset() + top.line().len();
            writer.put(&[request.bytes.get(at..line_end).unwrap_or(&[])]);
        } else if let Some(top) = request.lines(HeaderName::Via).next() {
            writer.copy(&top);
        }
        for line in request.lines(HeaderName::Via).skip(1) {
            writer.copy(&line);
        }
    }

    /// To, with the tag if it has none. One that is malformed is left alone.
    fn to(&self, to: &Header<'_>, writer: &mut MessageWriter<'_>) {
        let untagged =
            to.parse::<crate::codec::header::address::Address<'_>>().is_ok_and(|to| to.tag.is_none());
        match self.to_tag.filter(|_| untagged) {
            Some(tag) => {
                writer.check(check_name(tag).map_err(|_| WriteError::Name));
                writer.put(&[to.line().trim_ascii_end(), b";tag=", tag, b"\r\n"]);
            }
            None => {
                writer.copy(to);
            }
        }
    }
}

fn notes_in_order(
    request: &Message<'_>,
    source: SocketAddr,
) -> impl Iterator<Item = super::source::Noted> + use<> {
    let mut notes = notes(request, source);
    notes.sort_unstable_by_key(|note| note.map_or(usize::MAX, |(start, end, _)| start.max(end)));
    notes.into_iter().flatten()
}
