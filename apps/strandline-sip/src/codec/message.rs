//! A message: its first line, its headers (through the index) and its body (RFC 3261 section 7).

use super::cursor::{Cursor, Result};
use super::error::{Error, ErrorKind};
use super::header::token::Number;
use super::header::values::{Element, Values, line_cursor};
use super::header::via::Via;
use super::index::{Index, Line};
use super::method::Method;
use super::name::HeaderName;
use super::start_line::{RejectedLine, RequestLine, StartLine, StatusLine, line_end, skip_line_ends};
use super::uri::Uri;

/// A message as views of its bytes, small and cheap to copy.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) index: &'a Index,
    /// First line.
    start_line: StartLine<'a>,
    /// The start and the end of the first line.
    pub(crate) first: (usize, usize),
    /// The end of the headers: the position of the empty line.
    pub(crate) headers_end: usize,
    body: &'a [u8],
}

/// One header line.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a> {
    bytes: &'a [u8],
    line: Line,
}

impl<'a> Header<'a> {
    /// The name of the header.
    #[must_use]
    pub const fn name(&self) -> HeaderName {
        self.line.name
    }

    /// The name as it was sent.
    #[must_use]
    pub fn name_bytes(&self) -> &'a [u8] {
        let line = self.bytes.get(self.line.start as usize..self.line.value as usize).unwrap_or(&[]);
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        line.get(..colon).unwrap_or(&[]).trim_ascii_end()
    }

    /// The value as it was sent, without surrounding white space. A folded value contains line ends.
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        self.bytes.get(self.line.value as usize..self.line.end as usize).unwrap_or(&[]).trim_ascii()
    }

    /// The position of the line in the message.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.line.start as usize
    }

    /// The position of the next line.
    pub(crate) const fn end(&self) -> usize {
        self.line.end as usize + 2
    }

    /// The position of the value, after white space, even if that is folded.
    pub(crate) fn value_offset(&self) -> usize {
        let value = self.bytes.get(self.line.value as usize..self.line.end as usize).unwrap_or(&[]);
        self.line.value as usize + (value.len() - value.trim_ascii_start().len())
    }

    /// Returns true if the value is folded over several lines; the line ends count as spaces (section 7.3.1).
    #[must_use]
    pub const fn is_folded(&self) -> bool {
        self.line.folded
    }

    /// The whole line as it was sent, with its CRLF.
    #[must_use]
    pub fn line(&self) -> &'a [u8] {
        self.bytes.get(self.line.start as usize..self.line.end as usize + 2).unwrap_or(&[])
    }

    /// Parses the value, of which there must be exactly one.
    ///
    /// # Errors
    /// Returns an error if it is malformed.
    pub fn parse<T: Element<'a>>(&self) -> Result<T> {
        let value = self.bytes.get(..self.line.end as usize).unwrap_or(&[]);
        let mut cursor = Cursor::new(value, self.line.value as usize);
        T::parse_whole(&mut cursor).map_err(|error| error.in_header(self.line.name))
    }
}

/// A message that was rejected: the error, and as much of the message as a response needs.
#[derive(Debug, Clone, Copy)]
pub struct Rejected<'a> {
    /// The error; its status code is that of the response.
    pub error: Error,
    message: Option<Message<'a>>,
}

impl<'a> Rejected<'a> {
    /// The request, if it can be answered: it is not an ACK, and its topmost Via names the sender. Any other
    /// message is dropped silently (RFC 3261 sections 16.3 and 18.3).
    #[must_use]
    pub fn answerable(&self) -> Option<Message<'a>> {
        self.message.filter(Message::is_answerable)
    }
}

impl<'a> Message<'a> {
    /// Parses a whole message: a UDP datagram, an SCTP or WebSocket message, or a message that
    /// [`StreamFramer`](super::StreamFramer) cut out of a stream. It parses the first line, indexes all
    /// headers, and takes the body by Content-Length. Bytes after the body are ignored; a body shorter than
    /// that is an error (RFC 3261 section 18.3). Header values are parsed on access, except the topmost Via,
    /// which every user of a message needs.
    ///
    /// # Errors
    /// Returns an error if the first line or a header line is malformed, a limit of the index is exceeded, or
    /// the body is too short.
    ///
    /// ```
    /// use strandline_sip::codec::{Index, Message, Method, StatusCode};
    ///
    /// let bytes = b"REGISTER sip:example.com SIP/2.0\r\n\
    ///     v: SIP/2.0/UDP 192.0.2.4:5060;branch=z9hG4bKnashds7\r\n\
    ///     To: Bob <sips:bob@example.com>\r\n\
    ///     From: Bob <sips:bob@example.com>;tag=456248\r\n\
    ///     Call-ID: 843817637684230@998sdasdh09\r\n\
    ///     CSeq: 1826 REGISTER\r\n\
    ///     Contact: <sips:bob@192.0.2.4>;expires=600,\r\n <sips:bob@192.0.2.5>\r\n\
    ///     Content-Length: 0\r\n\r\n";
    /// let mut index = Index::new(); // reused for all messages
    /// let message = Message::parse(bytes, &mut index).map_err(|rejected| rejected.error)?;
    /// assert_eq!(message.method(), Some(Method::Register));
    /// assert_eq!(message.contacts()?.count(), 2);
    /// let essentials = message.essentials()?;
    /// assert_eq!(essentials.from.tag, Some(&b"456248"[..]));
    /// assert_eq!(essentials.cseq.number, 1826);
    /// # Ok::<(), strandline_sip::codec::Error>(())
    /// ```
    #[inline]
    pub fn parse(bytes: &'a [u8], index: &'a mut Index) -> core::result::Result<Self, Rejected<'a>> {
        index.clear();
        let start = skip_line_ends(bytes);
        let nothing = |error| Rejected { error, message: None };
        let end = line_end(bytes, start).map_err(nothing)?;
        let line = StartLine::parse_line(bytes.get(..end).unwrap_or(bytes), start);
        let (start_line, fault) = match line {
            Ok(start_line) => (start_line, None),
            Err(RejectedLine { error, request: Some(request) }) => (StartLine::Request(request), Some(error)),
            Err(RejectedLine { error, request: None }) => return Err(nothing(error)),
        };
        let read = index.read(bytes, end + 2);
        let via = index.first(HeaderName::Via).and_then(|number| line_cursor(bytes, index, number));
        index.keep_top_via(via.and_then(Via::keep));
        let index: &'a Index = index;
        let body_at = *read.as_ref().unwrap_or(&bytes.len());
        let headers_end = index.lines().last().map_or(end + 2, |line| line.end as usize + 2);
        let body = bytes.get(body_at..).unwrap_or(&[]);
        let mut message = Self { bytes, index, start_line, first: (start, end), headers_end, body };
        let fault = fault.or(read.err());
        let body = message.cut_body();
        match fault.or(body.as_ref().err().copied()) {
            None => {
                message.body = body.unwrap_or(message.body);
                Ok(message)
            }
            Some(error) => Err(Rejected { error, message: Some(message) }),
        }
    }

    /// The first Content-Length bytes of what follows the headers.
    #[inline]
    fn cut_body(&self) -> Result<&'a [u8]> {
        let Some(length) = self.content_length()? else { return Ok(self.body) };
        let error =
            Error::new(ErrorKind::BodyTruncated, self.bytes.len()).in_header(HeaderName::ContentLength);
        self.body.get(..length).ok_or(error)
    }

    /// Returns true if this request may get an error response: it is neither a response nor an ACK, and its
    /// topmost Via names the sender.
    #[must_use]
    pub fn is_answerable(&self) -> bool {
        let via = self.index.first(HeaderName::Via);
        let cursor = via.and_then(|number| line_cursor(self.bytes, self.index, number));
        let named = |mut cursor: Cursor<'a>| {
            cursor.skip_space();
            Via::head(&mut cursor).is_ok()
        };
        let sender = self.index.top_via().is_some() || cursor.is_some_and(named);
        sender && self.method().is_some_and(|method| method != Method::Ack)
    }

    /// The first line.
    #[must_use]
    pub const fn start_line(&self) -> &StartLine<'a> {
        &self.start_line
    }

    /// The first line, if this is a request.
    #[must_use]
    pub const fn request_line(&self) -> Option<&RequestLine<'a>> {
        match &self.start_line {
            StartLine::Request(line) => Some(line),
            StartLine::Status(_) => None,
        }
    }

    /// The first line, if this is a response.
    #[must_use]
    pub const fn status_line(&self) -> Option<&StatusLine<'a>> {
        match &self.start_line {
            StartLine::Request(_) => None,
            StartLine::Status(line) => Some(line),
        }
    }

    /// The request's method; `None` for a response.
    #[must_use]
    pub const fn method(&self) -> Option<Method<'a>> {
        self.start_line.method()
    }

    /// Returns true if this is a request.
    #[must_use]
    pub const fn is_request(&self) -> bool {
        self.request_line().is_some()
    }

    /// Parses the request URI; `None` for a response.
    ///
    /// # Errors
    /// Returns an error if the URI is malformed or has headers.
    #[inline]
    pub fn request_uri(&self) -> Result<Option<Uri<'a>>> {
        let Some(line) = self.request_line() else { return Ok(None) };
        let end = line.uri_at + line.uri.len();
        let text = self.bytes.get(..end).unwrap_or(&[]);
        let uri = Uri::parse_at(text, line.uri_at)?;
        uri.check_target(line.uri_at)?;
        Ok(Some(uri))
    }

    /// The message as it was sent, without line ends before it and bytes after the body.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes.get(self.first.0..self.body_at() + self.body.len()).unwrap_or(&[])
    }

    /// The body.
    #[must_use]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }

    pub(crate) fn body_at(&self) -> usize {
        self.headers_end + 2
    }

    /// All header lines, in order.
    pub fn headers(&self) -> impl Iterator<Item = Header<'a>> + use<'a> {
        let bytes = self.bytes;
        self.index.lines().iter().map(move |line| Header { bytes, line: *line })
    }

    /// The lines of one header, in order.
    pub fn lines(&self, name: HeaderName) -> impl Iterator<Item = Header<'a>> + use<'a> {
        let (bytes, index) = (self.bytes, self.index);
        let numbers = core::iter::successors(index.first(name), move |number| index.next(name, *number));
        numbers.filter_map(move |number| Some(Header { bytes, line: *index.lines().get(number)? }))
    }

    /// The lines of a header that has no [`HeaderName`], matched by name without regard to case.
    pub fn lines_named(&self, name: &'a [u8]) -> impl Iterator<Item = Header<'a>> + use<'a> {
        self.lines(HeaderName::Other).filter(move |header| header.name_bytes().eq_ignore_ascii_case(name))
    }

    /// Returns true if the header occurs at least once.
    #[must_use]
    pub fn has(&self, name: HeaderName) -> bool {
        self.index.first(name).is_some()
    }

    /// Parses the value of an optional header that may occur once.
    ///
    /// # Errors
    /// Returns an error if the header is malformed or occurs more than once.
    #[inline(always)]
    pub fn one<T: Element<'a>>(&self, name: HeaderName) -> Result<Option<T>> {
        let Some(number) = self.index.first(name) else { return Ok(None) };
        let Some(mut cursor) = line_cursor(self.bytes, self.index, number) else { return Ok(None) };
        if self.index.is_repeated(name) {
            let second = self.index.next(name, number).and_then(|next| self.index.lines().get(next));
            let at = second.map_or(0, |line| line.start as usize);
            return Err(Error::new(ErrorKind::Repeated, at).in_header(name));
        }
        T::parse_whole(&mut cursor).map(Some).map_err(|error| error.in_header(name))
    }

    /// Parses the value of a mandatory header that may occur once.
    ///
    /// # Errors
    /// Returns an error if the header is missing, malformed or occurs more than once.
    #[inline(always)]
    pub fn required<T: Element<'a>>(&self, name: HeaderName) -> Result<T> {
        self.one(name)?.ok_or(Error::missing(name, self.headers_end))
    }

    /// Parses the first value of a mandatory header that may have several.
    ///
    /// # Errors
    /// Returns an error if the header is missing or the value is malformed.
    #[inline(always)]
    pub fn top<T: Element<'a>>(&self, name: HeaderName) -> Result<T> {
        let cursor = self.index.first(name).and_then(|number| line_cursor(self.bytes, self.index, number));
        let Some(mut cursor) = cursor else { return Err(Error::missing(name, self.headers_end)) };
        cursor.skip_space();
        let value = T::take(&mut cursor);
        match value.and_then(|value| cursor.finish_element().map(|()| value)) {
            Ok(value) => Ok(value),
            Err(error) => Err(error.in_header(name)),
        }
    }

    /// All values of a header that may have several, across all its lines.
    #[inline]
    #[must_use]
    pub fn values<T: Element<'a>>(&self, name: HeaderName) -> Values<'a, T> {
        Values::new(self.bytes, self.index, name)
    }

    /// Content-Length, if present.
    ///
    /// # Errors
    /// Returns an error if it is not a number or occurs more than once. Even equal numbers are an error,
    /// because the sender's intent would be a guess.
    #[inline]
    pub fn content_length(&self) -> Result<Option<usize>> {
        let length: Option<Number> = self.one(HeaderName::ContentLength)?;
        Ok(length.map(|Number(length)| length as usize))
    }
}
