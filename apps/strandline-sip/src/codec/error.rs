//! Errors of parsing: what is wrong with a message, where, and the status code of the response.

use core::fmt;

use super::name::HeaderName;
use super::status::StatusCode;

/// An error found while parsing. [`offset`](Self::offset) counts bytes from the start of the parsed text,
/// which is the message, or the value if it was parsed alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The header in which the error was found, if it has a [`HeaderName`] of its own.
    pub header: Option<HeaderName>,
    /// The byte at which the error was noticed.
    pub offset: u32,
}

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The message is empty or consists of line ends only.
    Empty,
    /// The empty line that ends the headers is missing.
    HeadersUnterminated,
    /// CR without LF or LF without CR.
    LineEnd,
    /// A control character outside a quoted string.
    Control,
    /// More header lines than [`Limits::header_lines_max`](super::Limits).
    TooManyHeaders,
    /// The headers together are longer than [`Limits::header_bytes_max`](super::Limits).
    HeadersTooLong,
    /// The body is longer than [`Limits::body_bytes_max`](super::Limits).
    BodyTooLong,
    /// The first line is neither a request line nor a status line.
    StartLine,
    /// The message is SIP, but not version 2.0.
    Version,
    /// The status code of a response is not between 100 and 699.
    StatusCode,
    /// A header line has no name or no colon.
    HeaderName,
    /// A mandatory header is missing.
    Missing,
    /// A header that may occur once occurs more often.
    Repeated,
    /// The body is shorter than Content-Length.
    BodyTruncated,
    /// The URI is malformed.
    Uri,
    /// The server doesn't know the scheme of the request URI.
    Scheme,
    /// A header that requires a SIP or SIPS URI has a URI of another scheme.
    NotSip,
    /// The request URI has headers, which RFC 3261 section 19.1.1 forbids.
    UriHeaders,
    /// A host name or address is malformed.
    Host,
    /// A port is not a number from 0 to 65,535.
    Port,
    /// A token was expected.
    Token,
    /// A number was expected.
    Number,
    /// A number is larger than its field allows.
    TooLarge,
    /// A quoted string is not terminated or contains a forbidden character.
    Quoted,
    /// `<` without `>`, or white space between them.
    Brackets,
    /// A comment is not terminated or nested too deeply.
    Comment,
    /// A parameter is malformed or empty.
    Parameter,
    /// A parameter that may occur once occurs twice.
    ParameterRepeated,
    /// A value is followed by something that doesn't belong to it.
    Trailing,
    /// The protocol of a Via is not `SIP/2.0/transport`.
    Protocol,
    /// The branch is the magic cookie `z9hG4bK` with nothing after it.
    Branch,
    /// The method in CSeq differs from the one in the request line, which this codec knows.
    MethodMismatch,
    /// The method in CSeq differs from the one in the request line, which this codec doesn't know.
    UnknownMethodMismatch,
    /// A date is not an RFC 1123 date in GMT.
    Date,
    /// The request requires an extension that the server doesn't support.
    Extension,
    /// A body is not multipart, or its boundary is missing.
    Multipart,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, offset: usize) -> Self {
        Self { kind, header: None, offset: u32::try_from(offset).unwrap_or(u32::MAX) }
    }

    pub(crate) fn missing(header: HeaderName, offset: usize) -> Self {
        Self { header: Some(header), ..Self::new(ErrorKind::Missing, offset) }
    }

    /// Adds the name of the header, unless the error has one already.
    pub(crate) fn in_header(self, header: HeaderName) -> Self {
        Self { header: Some(self.header.unwrap_or(header)), ..self }
    }

    /// The status code of the response to such a request: 400, 416 (scheme), 420 (extension), 501 (method
    /// unknown and different in CSeq), 505 (version) or 513 (too large).
    ///
    /// ```
    /// use strandline_sip::codec::{Index, Message};
    ///
    /// let bytes = b"OPTIONS sip:a@example.com SIP/7.0\r\nVia: SIP/2.0/UDP b.example.com\r\n\r\n";
    /// let mut index = Index::new();
    /// let rejected = Message::parse(bytes, &mut index).err().ok_or("it must be refused")?;
    /// assert_eq!(rejected.error.status().code(), 505);
    /// assert_eq!(rejected.error.offset, 26);
    /// assert!(rejected.answerable().is_some());
    /// # Ok::<(), &str>(())
    /// ```
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.kind {
            ErrorKind::Scheme => StatusCode::UNSUPPORTED_URI_SCHEME,
            ErrorKind::Extension => StatusCode::BAD_EXTENSION,
            ErrorKind::UnknownMethodMismatch => StatusCode::NOT_IMPLEMENTED,
            ErrorKind::Version => StatusCode::VERSION_NOT_SUPPORTED,
            ErrorKind::TooManyHeaders | ErrorKind::HeadersTooLong | ErrorKind::BodyTooLong => {
                StatusCode::MESSAGE_TOO_LARGE
            }
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.header) {
            (ErrorKind::Missing, Some(header)) => write!(f, "Missing {header}"),
            (ErrorKind::Repeated, Some(header)) => write!(f, "Repeated {header}"),
            (kind, Some(header)) => write!(f, "{} in {header} at byte {}", kind.text(), self.offset),
            (kind, None) => write!(f, "{} at byte {}", kind.text(), self.offset),
        }
    }
}

impl ErrorKind {
    /// A short text, suitable as a reason phrase (RFC 3261 section 21.4.1).
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Empty => "Empty message",
            Self::HeadersUnterminated => "Headers don't end",
            Self::LineEnd => "Line doesn't end with CRLF",
            Self::Control => "Control character",
            Self::TooManyHeaders => "Too many headers",
            Self::HeadersTooLong => "Headers too long",
            Self::BodyTooLong => "Body too long",
            Self::StartLine => "Malformed first line",
            Self::Version => "Unknown version",
            Self::StatusCode => "Impossible status code",
            Self::HeaderName => "Malformed header name",
            Self::Missing => "Missing header",
            Self::Repeated => "Repeated header",
            Self::BodyTruncated => "Body shorter than Content-Length",
            Self::Uri => "Malformed URI",
            Self::Scheme => "Unknown URI scheme",
            Self::NotSip => "Not a SIP URI",
            Self::UriHeaders => "Headers in request URI",
            Self::Host => "Malformed host",
            Self::Port => "Malformed port",
            Self::Token => "Token expected",
            Self::Number => "Number expected",
            Self::TooLarge => "Number too large",
            Self::Quoted => "Malformed quoted string",
            Self::Brackets => "Malformed angle brackets",
            Self::Comment => "Malformed comment",
            Self::Parameter => "Malformed parameter",
            Self::ParameterRepeated => "Repeated parameter",
            Self::Trailing => "Text after value",
            Self::Protocol => "Unknown protocol",
            Self::Branch => "Empty branch",
            Self::MethodMismatch | Self::UnknownMethodMismatch => "Method differs from CSeq",
            Self::Date => "Malformed date",
            Self::Extension => "Unsupported extension",
            Self::Multipart => "Malformed multipart body",
        }
    }
}
