//! Edits a message in transit (RFC 3261 sections 16.6 and 16.7), as splices over its bytes. Everything else
//! is copied unchanged and in order.

use core::net::SocketAddr;

use bytes::BytesMut;

use crate::codec::cursor::Cursor;
use crate::codec::header::address::Address;
use crate::codec::header::params::without_empty_param;
use crate::codec::header::values::{Element, line_cursor};
use crate::codec::header::via::Via;
use crate::codec::message::Message;
use crate::codec::name::HeaderName;

use super::source::{Note, notes, via_param_places};
use super::via::{NewVia, write_number};
use super::{WriteError, check_known, check_name, check_text, check_value};

const EDITS_MAX: usize = 24;

/// The text that replaces a range.
#[derive(Debug, Clone, Copy)]
enum Insert<'a> {
    Nothing,
    Text(&'a [u8]),
    /// `name: value` and CRLF.
    Line(&'a [u8], &'a [u8]),
    /// `name: number` and CRLF.
    NumberLine(HeaderName, u32),
    Number(u32),
    Via(&'a NewVia<'a>),
    Note(Note),
    Tag(&'a [u8]),
}

/// Replaces the bytes from `start` to `end`.
#[derive(Debug, Clone, Copy)]
struct Splice<'a> {
    start: usize,
    end: usize,
    /// If two insertions are at the same position, the one with the lower rank comes first.
    rank: i32,
    insert: Insert<'a>,
}

/// Edits of one message, applied when it is written to a buffer. [`write`](Self::write) reports any error.
///
/// ```
/// use bytes::BytesMut;
/// use strandline_sip::codec::{Edits, Host, Index, Message, NewVia, Transport};
///
/// let bytes = b"BYE sip:b@example.com SIP/2.0\r\n\
///     v: SIP/2.0/UDP a.example;branch=z9hG4bK1\r\n\
///     Route: <sip:me.example;lr>, <sip:next.example;lr>\r\nMax-Forwards : 070\r\nX:y\r\nl: 0\r\n\r\n";
/// let mut index = Index::new();
/// let message = Message::parse(bytes, &mut index).map_err(|rejected| rejected.error)?;
/// let via = NewVia {
///     transport: Transport::Udp, host: Host::Name(b"me.example"), port: None, branch: b"2", rport: false, params: b"",
/// };
/// let mut edits = Edits::new(message);
/// edits.push_via(&via).source("192.0.2.1:5060".parse()?).pop_route().decrement_max_forwards(70);
/// let mut out = BytesMut::new();
/// edits.write(&mut out)?;
/// assert_eq!(
///     &out[..],
///     b"BYE sip:b@example.com SIP/2.0\r\n\
///     Via: SIP/2.0/UDP me.example;branch=z9hG4bK2\r\n\
///     v: SIP/2.0/UDP a.example;branch=z9hG4bK1;received=192.0.2.1\r\n\
///     Route: <sip:next.example;lr>\r\nMax-Forwards : 69\r\nX:y\r\nl: 0\r\n\r\n",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Edits<'a> {
    message: Message<'a>,
    splices: [Splice<'a>; EDITS_MAX],
    len: usize,
    result: Result<(), WriteError>,
}

impl<'a> Edits<'a> {
    /// Maximum number of edits of one message. Adjacent lines that are removed count as one edit.
    pub const EDITS_MAX: usize = EDITS_MAX;

    /// Creates an empty list of edits, which copies the message.
    #[must_use]
    pub fn new(message: Message<'a>) -> Self {
        let none = Splice { start: 0, end: 0, rank: 0, insert: Insert::Nothing };
        Self { message, splices: [none; Self::EDITS_MAX], len: 0, result: Ok(()) }
    }

    fn fail(&mut self, error: WriteError) -> &mut Self {
        self.result = self.result.and(Err(error));
        self
    }

    fn splice(&mut self, start: usize, end: usize, rank: i32, insert: Insert<'a>) -> &mut Self {
        let last = self.len.checked_sub(1).and_then(|last| self.splices.get_mut(last));
        if let (Some(last), Insert::Nothing) = (last, insert)
            && matches!(last.insert, Insert::Nothing)
            && last.end == start
        {
            last.end = end;
            return self;
        }
        match self.splices.get_mut(self.len) {
            Some(free) => {
                *free = Splice { start, end, rank, insert };
                self.len += 1;
                self
            }
            None => self.fail(WriteError::TooManyEdits),
        }
    }

    /// Inserts at `at`, before everything that was inserted there earlier.
    fn push(&mut self, at: usize, insert: Insert<'a>) -> &mut Self {
        let rank = -1 - self.len as i32;
        self.splice(at, at, rank, insert)
    }

    /// The position of the first header line.
    fn top(&self) -> usize {
        self.message.first.1 + 2
    }

    /// The position of a new first line of this header: before its existing lines, or before all headers.
    fn before(&self, name: HeaderName) -> usize {
        self.message.lines(name).next().map_or(self.top(), |line| line.offset())
    }

    /// Replaces the request URI.
    pub fn request_uri(&mut self, uri: &'a [u8]) -> &mut Self {
        let Some(line) = self.message.request_line() else { return self.fail(WriteError::Target) };
        let (start, end) = (line.uri_at, line.uri_at + line.uri.len());
        if uri.is_empty() || uri.contains(&b' ') {
            return self.fail(WriteError::Target);
        }
        match check_text(uri) {
            Ok(()) => self.splice(start, end, 0, Insert::Text(uri)),
            Err(error) => self.fail(error),
        }
    }

    /// Adds a Via on top.
    pub fn push_via(&mut self, via: &'a NewVia<'a>) -> &mut Self {
        match via.check() {
            Ok(()) => self.push(self.before(HeaderName::Via), Insert::Via(via)),
            Err(error) => self.fail(error),
        }
    }

    /// Removes the topmost Via, as a proxy does with a response.
    pub fn pop_via(&mut self) -> &mut Self {
        self.pop::<Via<'a>>(HeaderName::Via)
    }

    /// Adds a value on top of Route, Record-Route, Path, Service-Route or another list, in its own line.
    pub fn push_value(&mut self, name: HeaderName, value: &'a [u8]) -> &mut Self {
        match check_known(name).and_then(|()| check_value(value)) {
            Ok(()) => self.push(self.before(name), Insert::Line(name.as_str().as_bytes(), value)),
            Err(error) => self.fail(error),
        }
    }

    /// Adds a Record-Route on top, such as `<sip:proxy.example.com;lr>`.
    pub fn push_record_route(&mut self, route: &'a [u8]) -> &mut Self {
        self.push_value(HeaderName::RecordRoute, route)
    }

    /// Adds a Route on top.
    pub fn push_route(&mut self, route: &'a [u8]) -> &mut Self {
        self.push_value(HeaderName::Route, route)
    }

    /// Removes the topmost Route.
    pub fn pop_route(&mut self) -> &mut Self {
        self.pop::<Address<'a>>(HeaderName::Route)
    }

    /// Removes the first value of a list: the whole line if no other value is in it, otherwise the text up to
    /// the next value.
    fn pop<T: Element<'a>>(&mut self, name: HeaderName) -> &mut Self {
        let Some(line) = self.message.lines(name).next() else { return self.fail(WriteError::Target) };
        let end = line.offset() + line.line().len();
        match line_cursor(self.message.bytes, self.message.index, self.message.index.first(name).unwrap_or(0))
            .map(|cursor| after_first::<T>(cursor, end))
        {
            Some(Ok((start, after))) if after < end => self.splice(start, after, 0, Insert::Nothing),
            Some(Ok(_)) => self.splice(line.offset(), end, 0, Insert::Nothing),
            _ => self.fail(WriteError::Target),
        }
    }

    /// Decrements Max-Forwards, or sets it to `default` if it is missing (section 16.6, step 3).
    ///
    /// It is an error if no hops are left or the value is malformed, because the request should have been
    /// rejected.
    pub fn decrement_max_forwards(&mut self, default: u8) -> &mut Self {
        let hops = match self.message.max_forwards() {
            Ok(None) => return self.add_number(HeaderName::MaxForwards, u32::from(default)),
            Ok(Some(hops)) => hops.checked_sub(1),
            Err(_) => None,
        };
        match (hops, self.message.lines(HeaderName::MaxForwards).next()) {
            (Some(hops), Some(line)) => {
                let start = line.value_offset();
                self.splice(start, start + line.value().len(), 0, Insert::Number(u32::from(hops)))
            }
            _ => self.fail(WriteError::Target),
        }
    }

    /// Records the source address in the topmost Via: `received`, and `rport` if the sender asked for it
    /// (section 18.2.1, RFC 3581).
    pub fn source(&mut self, source: SocketAddr) -> &mut Self {
        for (start, end, note) in notes(&self.message, source).into_iter().flatten() {
            let insert = if note == Note::Nothing { Insert::Nothing } else { Insert::Note(note) };
            self.splice(start, end, 0, insert);
        }
        self
    }

    /// Removes the parameters of the topmost Via whose names match `unwanted`.
    pub(crate) fn remove_via_params(&mut self, unwanted: fn(&[u8]) -> bool) -> &mut Self {
        let message = self.message;
        for (start, end) in via_param_places(&message, unwanted) {
            self.splice(start, end, 0, Insert::Nothing);
        }
        self
    }

    /// Adds a tag to To.
    pub fn to_tag(&mut self, tag: &'a [u8]) -> &mut Self {
        let Some(line) = self.message.lines(HeaderName::To).next() else {
            return self.fail(WriteError::Target);
        };
        let untagged = line.parse::<Address<'a>>().is_ok_and(|to| to.tag.is_none());
        if !untagged || check_name(tag).is_err() {
            return self.fail(WriteError::Target);
        }
        let (start, value) = (line.value_offset(), line.value());
        let end = start + without_empty_param(value).len();
        self.splice(end, start + value.len(), 0, Insert::Tag(tag))
    }

    /// Adds a header after all others.
    pub fn add(&mut self, name: &'a [u8], value: &'a [u8]) -> &mut Self {
        match check_name(name).and_then(|()| check_value(value)) {
            Ok(()) => self.splice(
                self.message.headers_end,
                self.message.headers_end,
                self.len as i32,
                Insert::Line(name, value),
            ),
            Err(error) => self.fail(error),
        }
    }

    /// Adds a numeric header after all others.
    pub fn add_number(&mut self, name: HeaderName, value: u32) -> &mut Self {
        let at = self.message.headers_end;
        self.splice(at, at, self.len as i32, Insert::NumberLine(name, value))
    }

    /// Adds Content-Length if it is missing. A message from a datagram may need it before it goes into a
    /// stream.
    pub fn ensure_content_length(&mut self) -> &mut Self {
        if self.message.has(HeaderName::ContentLength) {
            return self;
        }
        self.add_number(HeaderName::ContentLength, self.message.body().len() as u32)
    }

    /// Adds a parameter to a URI of this message that is in brackets. Leaves any other URI unchanged.
    pub(crate) fn add_uri_param(&mut self, uri: &'a [u8], param: &'a [u8]) -> &mut Self {
        let end = uri.as_ptr_range().end as usize;
        let Some(at) = end.checked_sub(self.message.bytes.as_ptr() as usize) else { return self };
        match self.message.bytes.get(at) {
            Some(b'>') => self.splice(at, at, 0, Insert::Text(param)),
            _ => self,
        }
    }

    /// Replaces a URI of this message.
    pub(crate) fn replace_uri(&mut self, uri: &'a [u8], with: &'a [u8]) -> &mut Self {
        let start = (uri.as_ptr() as usize).checked_sub(self.message.bytes.as_ptr() as usize);
        match (start, check_text(with)) {
            (Some(start), Ok(())) => self.splice(start, start + uri.len(), 0, Insert::Text(with)),
            (None, _) => self.fail(WriteError::Target),
            (_, Err(error)) => self.fail(error),
        }
    }

    /// Removes all lines of a header.
    pub fn remove(&mut self, name: HeaderName) -> &mut Self {
        for line in self.message.lines(name) {
            let start = line.offset();
            self.splice(start, start + line.line().len(), 0, Insert::Nothing);
        }
        self
    }

    /// Removes all lines of a header that has no [`HeaderName`].
    pub(crate) fn remove_named(&mut self, name: &[u8]) -> &mut Self {
        for line in self.message.lines(HeaderName::Other) {
            if line.name_bytes().eq_ignore_ascii_case(name) {
                let start = line.offset();
                self.splice(start, start + line.line().len(), 0, Insert::Nothing);
            }
        }
        self
    }

    /// Appends the edited message to `out`.
    ///
    /// # Errors
    /// Returns the first error of an edit, or [`WriteError::Overlap`] if two edits overlap. Nothing is
    /// written then.
    pub fn write(&self, out: &mut BytesMut) -> Result<(), WriteError> {
        self.result?;
        let mut splices = self.splices;
        let splices = splices.get_mut(..self.len).unwrap_or(&mut []);
        splices.sort_unstable_by_key(|splice| (splice.start, splice.end > splice.start, splice.rank));
        let bytes = self.message.bytes;
        let overlap = splices.windows(2).any(|pair| matches!(pair, [a, b] if a.end > b.start));
        if overlap {
            return Err(WriteError::Overlap);
        }
        let mut at = self.message.first.0;
        for splice in splices.iter() {
            out.extend_from_slice(bytes.get(at..splice.start).unwrap_or(&[]));
            splice.insert.write(out);
            at = splice.end;
        }
        let end = self.message.body_at() + self.message.body().len();
        out.extend_from_slice(bytes.get(at..end).unwrap_or(&[]));
        Ok(())
    }
}

/// The start of the first value and the start of the next one, or the end of the line if there is only one.
fn after_first<'a, T: Element<'a>>(
    mut cursor: Cursor<'a>,
    end: usize,
) -> crate::codec::cursor::Result<(usize, usize)> {
    cursor.skip_space();
    let start = cursor.at();
    T::take(&mut cursor)?;
    cursor.finish_element()?;
    Ok((start, if cursor.peek().is_none() { end } else { cursor.at() }))
}

impl Insert<'_> {
    fn write(&self, out: &mut BytesMut) {
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
        match self {
            Self::Nothing => {}
            Self::Text(text) => put(&[text]),
            Self::Line(name, value) => put(&[name, b": ", value, b"\r\n"]),
            Self::NumberLine(name, value) => {
                put(&[name.as_str().as_bytes(), b": "]);
                write_number(out, *value);
                out.extend_from_slice(b"\r\n");
            }
            Self::Number(value) => write_number(out, *value),
            Self::Via(via) => via.write(out),
            Self::Note(note) => note.write(out),
            Self::Tag(tag) => put(&[b";tag=", tag]),
        }
    }
}
