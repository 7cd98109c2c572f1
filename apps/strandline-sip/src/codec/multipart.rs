//! Multipart bodies (RFC 2046 section 5.1), in which SIP carries SDP beside other content (RFC 5621).

use super::cursor::Result;
use super::error::{Error, ErrorKind};
use super::header::media::MediaType;
use super::index::read_line;
use super::name::HeaderName;

/// The length of the longest boundary that RFC 2046 allows, in bytes.
const BOUNDARY_BYTES_MAX: usize = 70;

/// One part of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'a> {
    /// Header lines as they were sent.
    pub headers: &'a [u8],
    /// The body, which may be binary.
    pub body: &'a [u8],
}

impl<'a> Part<'a> {
    /// The value of the part's first header with this name.
    #[must_use]
    pub fn header(&self, name: HeaderName) -> Option<&'a [u8]> {
        let mut at = 0;
        while let Ok(line) = read_line(self.headers, at) {
            if line.name == name {
                return self.headers.get(line.value as usize..line.end as usize).map(<[u8]>::trim_ascii);
            }
            at = line.end as usize + 2;
        }
        None
    }
}

/// Iterator over the parts of a body. It ends after an error.
#[derive(Debug, Clone)]
pub struct Multipart<'a> {
    boundary: &'a [u8],
    /// What follows the last boundary found so far.
    rest: Option<&'a [u8]>,
}

impl<'a> Multipart<'a> {
    /// Iterates over the parts of `body`, whose Content-Type is `kind`.
    ///
    /// # Errors
    /// Returns an error if the type is not multipart, if its boundary is missing or too long, or if the body
    /// doesn't contain it.
    ///
    /// ```
    /// use strandline_sip::codec::{Element, HeaderName, MediaType, Multipart};
    ///
    /// let kind = MediaType::parse(b"multipart/mixed;boundary=\"7a9c\"")?;
    /// let body = b"--7a9c\r\nContent-Type: text/plain\r\n\r\nHello\r\n--7a9c\r\n\r\n\0\xff\r\n--7a9c--\r\n";
    /// let parts: Result<Vec<_>, _> = Multipart::new(&kind, body)?.collect();
    /// let parts = parts?;
    /// assert_eq!(parts[0].header(HeaderName::ContentType), Some(&b"text/plain"[..]));
    /// assert_eq!((parts[0].body, parts[1].body), (&b"Hello"[..], &b"\0\xff"[..]));
    /// # Ok::<(), strandline_sip::codec::Error>(())
    /// ```
    pub fn new(kind: &MediaType<'a>, body: &'a [u8]) -> Result<Self> {
        let error = Error::new(ErrorKind::Multipart, 0);
        let multipart = kind.kind.eq_ignore_ascii_case(b"multipart");
        let boundary = kind.boundary().filter(|_| multipart).ok_or(error)?;
        if boundary.is_empty() || boundary.len() > BOUNDARY_BYTES_MAX {
            return Err(error);
        }
        let mut parts = Self { boundary, rest: Some(body) };
        // Text before the first boundary is a note to readers without MIME.
        if !parts.at_delimiter(body) {
            parts.take_to_delimiter().ok_or(error)?;
        } else {
            parts.rest = body.get(boundary.len() + 2..);
        }
        Ok(parts)
    }

    fn at_delimiter(&self, bytes: &[u8]) -> bool {
        bytes.strip_prefix(b"--").is_some_and(|rest| rest.starts_with(self.boundary))
    }

    /// Takes the text before the next delimiter and steps over the delimiter.
    fn take_to_delimiter(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let found = (0..rest.len()).find(|at| {
            let line = rest.get(*at..).and_then(|tail| tail.strip_prefix(b"\r\n"));
            line.is_some_and(|line| self.at_delimiter(line))
        });
        let at = found?;
        self.rest = rest.get(at + 4 + self.boundary.len()..);
        rest.get(..at)
    }

    fn step(&mut self) -> Result<Option<Part<'a>>> {
        let error = Error::new(ErrorKind::Multipart, 0);
        let Some(rest) = self.rest else { return Ok(None) };
        if rest.starts_with(b"--") {
            self.rest = None;
            return Ok(None);
        }
        // White space may follow the boundary in its line.
        let line = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(rest.len());
        let after = rest.get(line..).unwrap_or(&[]);
        // For a part without headers, this CRLF is also the empty line that ends the headers.
        let _ = after.strip_prefix(b"\r\n").ok_or(error)?;
        self.rest = Some(after);
        let part = self.take_to_delimiter().ok_or(error)?;
        let part = part.strip_prefix(b"\r\n").unwrap_or(part);
        if let Some(body) = part.strip_prefix(b"\r\n") {
            return Ok(Some(Part { headers: &[], body }));
        }
        let end = part.windows(4).position(|four| four == b"\r\n\r\n").ok_or(error)?;
        Ok(Some(Part {
            headers: part.get(..end + 2).unwrap_or(&[]),
            body: part.get(end + 4..).unwrap_or(&[]),
        }))
    }
}

impl<'a> Iterator for Multipart<'a> {
    type Item = Result<Part<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step().transpose();
        if !matches!(step, Some(Ok(_))) {
            self.rest = None;
        }
        step
    }
}

impl core::iter::FusedIterator for Multipart<'_> {}
