//! Builds new messages.

use bytes::BytesMut;

use crate::codec::message::Header;
use crate::codec::method::Method;
use crate::codec::name::HeaderName;
use crate::codec::status::StatusCode;

use super::via::{NewVia, write_number};
use super::{WriteError, check_known, check_name, check_text, check_value};

/// Writes a message: the first line, the headers in the order of the calls, then Content-Length and the body.
///
/// [`finish`](Self::finish) reports any error, in which case nothing is written.
///
/// ```
/// use bytes::BytesMut;
/// use strandline_sip::codec::{HeaderName, Host, Method, MessageWriter, NewVia, Transport};
///
/// let mut out = BytesMut::new();
/// let mut writer = MessageWriter::request(&mut out, Method::Options, b"sip:example.com");
/// let via = NewVia {
///     transport: Transport::Tcp, host: Host::Name(b"a.example"), port: None, branch: b"77", rport: true, params: b"",
/// };
/// writer.via(&via);
/// writer.header(HeaderName::CSeq, b"1 OPTIONS");
/// writer.finish(b"")?;
/// assert_eq!(
///     &out[..],
///     b"OPTIONS sip:example.com SIP/2.0\r\nVia: SIP/2.0/TCP a.example;branch=z9hG4bK77;rport\r\n\
///       CSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n",
/// );
/// # Ok::<(), strandline_sip::codec::WriteError>(())
/// ```
#[derive(Debug)]
pub struct MessageWriter<'b> {
    out: &'b mut BytesMut,
    /// The length of the buffer before this message.
    start: usize,
    result: Result<(), WriteError>,
}

impl<'b> MessageWriter<'b> {
    /// Starts a request, which is appended to `out`.
    #[must_use]
    pub fn request(out: &'b mut BytesMut, method: Method<'_>, uri: &[u8]) -> Self {
        let mut writer = Self { start: out.len(), out, result: Ok(()) };
        writer.check(check_name(method.as_bytes()));
        writer.check(check_text(uri));
        if uri.is_empty() || uri.contains(&b' ') {
            writer.check(Err(WriteError::Target));
        }
        writer.put(&[method.as_bytes(), b" ", uri, b" SIP/2.0\r\n"]);
        writer
    }

    /// Starts a response that doesn't belong to a request. For other responses, see
    /// [`Reply`](super::super::Reply).
    #[must_use]
    pub fn response(out: &'b mut BytesMut, code: StatusCode, reason: &[u8]) -> Self {
        let mut writer = Self { start: out.len(), out, result: Ok(()) };
        writer.check(check_text(reason));
        writer.put(&[b"SIP/2.0 "]);
        write_number(writer.out, u32::from(code.code()));
        writer.put(&[b" ", reason, b"\r\n"]);
        writer
    }

    /// Starts a response with the usual reason phrase.
    pub(crate) fn usual_response(out: &'b mut BytesMut, code: StatusCode) -> Self {
        let Some(line) = code.usual_line() else {
            return Self::response(out, code, code.reason().as_bytes());
        };
        let writer = Self { start: out.len(), out, result: Ok(()) };
        writer.out.extend_from_slice(line.as_bytes());
        writer
    }

    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        self.out
    }

    pub(crate) fn check(&mut self, result: Result<(), WriteError>) {
        self.result = self.result.and(result);
    }

    pub(crate) fn put(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.out.extend_from_slice(part);
        }
    }

    /// Writes a header. [`finish`](Self::finish) writes Content-Length.
    pub fn header(&mut self, name: HeaderName, value: &[u8]) -> &mut Self {
        self.header_of(name, &[value])
    }

    /// Writes a header given by its name.
    pub fn header_named(&mut self, name: &[u8], value: &[u8]) -> &mut Self {
        self.check(check_name(name));
        self.check(check_value(value));
        self.put(&[name, b": ", value, b"\r\n"]);
        self
    }

    /// Writes a header with a numeric value.
    pub fn number(&mut self, name: HeaderName, value: u32) -> &mut Self {
        self.check(check_known(name));
        self.out.extend_from_slice(name.before_value());
        write_number(self.out, value);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Writes a header whose value is the concatenation of `parts`.
    pub fn header_of(&mut self, name: HeaderName, parts: &[&[u8]]) -> &mut Self {
        self.check(check_known(name));
        let start = self.out.len();
        self.out.extend_from_slice(name.before_value());
        self.put(parts);
        // Check the parts together.
        self.check(check_value(self.out.get(start..).unwrap_or(&[])));
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Writes a Via.
    pub fn via(&mut self, via: &NewVia<'_>) -> &mut Self {
        self.check(via.check());
        via.write(self.out);
        self
    }

    /// Copies a header line of another message, byte for byte.
    pub fn copy(&mut self, header: &Header<'_>) -> &mut Self {
        self.put(&[header.line()]);
        self
    }

    /// Writes Content-Length and the body.
    ///
    /// # Errors
    /// Returns an error if a text contained a line break or a name was not a token. The buffer is then
    /// unchanged.
    pub fn finish(self, body: &[u8]) -> Result<(), WriteError> {
        if let Err(error) = self.result {
            self.out.truncate(self.start);
            return Err(error);
        }
        if body.is_empty() {
            self.out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
            return Ok(());
        }
        self.out.extend_from_slice(b"Content-Length: ");
        write_number(self.out, u32::try_from(body.len()).unwrap_or(u32::MAX));
        self.out.extend_from_slice(b"\r\n\r\n");
        self.out.extend_from_slice(body);
        Ok(())
    }
}
