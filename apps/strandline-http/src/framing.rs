//! Refuses requests whose framing is ambiguous: both Content-Length and Transfer-Encoding, or lines that don't end
//! by CRLF.
//!
//! hyper goes by Transfer-Encoding and drops Content-Length, as RFC 9112 section 6.3 permits. The same section
//! advises to refuse such a request, because another server that it passed may have gone by Content-Length. hyper's
//! service can't do that: it no longer sees the Content-Length. hyper also takes a bare LF for the end of a line in
//! heads, but not in chunks and trailers, and other servers draw the line elsewhere. [`Framing`] therefore follows the
//! messages, and [`Guard`](crate::guard::Guard) acts on what it finds.

/// Bytes of a header line that are looked at. A longer Content-Length or Transfer-Encoding is refused.
const LINE_MAX: usize = 256;

/// Where the next byte of a client belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a head.
    Head,
    /// In a body, or a chunk, with so many bytes to come.
    Body(u64),
    /// Before the first digit of a chunk's size.
    ChunkStart,
    /// In the digits of a chunk's size.
    ChunkSize(u64),
    /// In the rest of the line with a chunk's size.
    ChunkExtension(u64),
    /// In the data of a chunk.
    Chunk(u64),
    /// Before the line end after a chunk.
    ChunkEnd,
    /// In the trailers.
    Trailers,
    /// Behind a request that asks for a tunnel: whether this is the tunnel's depends on the response.
    Undecided,
    /// Behind what was refused.
    Refused,
}

/// Why the next bytes can't be passed to hyper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A head is refused, up to the byte at this offset, which is to be spoiled.
    Head(usize),
    /// The chunks or trailers of a body are refused, from the byte at this offset on.
    Body(usize),
    /// The bytes from this offset on follow a CONNECT or an Upgrade. [`Framing::no_tunnel`] says that they are HTTP.
    Undecided(usize),
}

/// Follows the requests of a connection of HTTP/1.
#[derive(Debug)]
pub(crate) struct Framing {
    place: Place,
    line: Vec<u8>,
    /// Whether the line is longer than what was kept of it.
    is_cut: bool,
    /// Whether the byte before was a CR, outside of bodies and chunks.
    is_after_cr: bool,
    /// Whether a line of the head has been read.
    has_begun: bool,
    length: Option<u64>,
    is_chunked: bool,
    /// Whether the request asks for a tunnel.
    wants_tunnel: bool,
    /// Requests that have begun.
    requests: u64,
    /// Which of them are about the whole server by an absolute target without a path.
    about_server: Vec<u64>,
}

impl Framing {
    pub(crate) fn new() -> Self {
        Self {
            place: Place::Head,
            line: Vec::new(),
            is_cut: false,
            is_after_cr: false,
            has_begun: false,
            length: None,
            is_chunked: false,
            wants_tunnel: false,
            requests: 0,
            about_server: Vec::new(),
        }
    }

    /// Returns the numbers of requests about the whole server that have come since the last call.
    pub(crate) fn take_about_server(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.about_server)
    }

    /// Returns whether nothing of the next request has been read.
    pub(crate) fn is_between_requests(&self) -> bool {
        (self.place == Place::Head && !self.has_begun && self.line.is_empty()) || self.is_undecided()
    }

    /// Returns whether the next bytes may be a tunnel's.
    pub(crate) fn is_undecided(&self) -> bool {
        self.place == Place::Undecided
    }

    /// Notes that a request got no tunnel.
    pub(crate) fn no_tunnel(&mut self) {
        if self.place == Place::Undecided {
            self.place = Place::Head;
        }
    }

    /// The place behind a request.
    fn end(&mut self) -> Place {
        if std::mem::take(&mut self.wants_tunnel) { Place::Undecided } else { Place::Head }
    }

    /// Takes the next bytes. Returns where they can't be passed on; after a refusal nothing more may follow.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Option<Stop> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.place == Place::Undecided {
                return Some(Stop::Undecided(at));
            }
            let left = (bytes.len() - at) as u64;
            if let Place::Body(more) | Place::Chunk(more) = self.place {
                let taken = more.min(left);
                self.place = match (self.place, more - taken) {
                    (Place::Body(_), 0) => self.end(),
                    (Place::Body(_), more) => Place::Body(more),
                    (_, 0) => Place::ChunkEnd,
                    (_, more) => Place::Chunk(more),
                };
                at += usize::try_from(taken).unwrap_or(usize::MAX);
                continue;
            }
            let is_head = self.place == Place::Head;
            // A CR is followed by LF, and nothing else is.
            let ends_line_well = std::mem::replace(&mut self.is_after_cr, byte == b'\r') == (byte == b'\n');
            if !ends_line_well || !self.line_byte(byte) {
                self.place = Place::Refused;
                return Some(if is_head { Stop::Head(at) } else { Stop::Body(at) });
            }
            at += 1;
        }
        None
    }

    /// Takes a byte outside of bodies and chunks. Returns whether the message can be accepted so far.
    fn line_byte(&mut self, byte: u8) -> bool {
        match (self.place, byte) {
            (Place::Head, _) => return self.head(byte),
            (Place::Trailers, _) => {
                if self.line_is_empty(byte) == Some(true) {
                    self.place = self.end();
                }
            }
            (Place::ChunkEnd | Place::ChunkSize(_) | Place::ChunkExtension(_), b'\r') => {}
            (Place::ChunkEnd, b'\n') => self.place = Place::ChunkStart,
            (Place::ChunkSize(0) | Place::ChunkExtension(0), b'\n') => self.place = Place::Trailers,
            (Place::ChunkSize(size) | Place::ChunkExtension(size), b'\n') => self.place = Place::Chunk(size),
            (Place::ChunkExtension(_), _) => {}
            (Place::ChunkSize(size), b';' | b' ' | b'\t') => self.place = Place::ChunkExtension(size),
            (Place::ChunkStart | Place::ChunkSize(_), _) => {
                let before = if let Place::ChunkSize(size) = self.place { size } else { 0 };
                let digit = char::from(byte).to_digit(16).map(u64::from);
                let size = digit.and_then(|digit| Some(before.checked_mul(16)? | digit));
                let Some(size) = size else { return false };
                self.place = Place::ChunkSize(size);
            }
            (Place::ChunkEnd | Place::Body(_) | Place::Chunk(_), _)
            | (Place::Undecided | Place::Refused, _) => return false,
        }
        true
    }

    /// Takes a byte of a head. Returns whether the head can be accepted so far.
    fn head(&mut self, byte: u8) -> bool {
        if byte == b'\n' {
            if self.has_begun && !self.field() {
                return false;
            }
            if !self.has_begun && self.line != b"\r" {
                self.wants_tunnel |= self.line.starts_with(b"CONNECT ");
                if is_about_server(&self.line) {
                    self.about_server.push(self.requests);
                }
                self.requests += 1;
            }
        }
        match self.line_is_empty(byte) {
            None => true,
            Some(false) => {
                self.has_begun = true;
                true
            }
            // Empty lines before a request are skipped.
            Some(true) if !self.has_begun => true,
            Some(true) => {
                let is_ambiguous = self.is_chunked && self.length.is_some();
                self.place = match self.length {
                    _ if self.is_chunked => Place::ChunkStart,
                    None | Some(0) => self.end(),
                    Some(length) => Place::Body(length),
                };
                (self.has_begun, self.length, self.is_chunked) = (false, None, false);
                !is_ambiguous
            }
        }
    }

    /// Adds a byte to the line. Returns at its end whether it was empty.
    fn line_is_empty(&mut self, byte: u8) -> Option<bool> {
        if byte == b'\n' {
            let is_empty = self.line == b"\r";
            self.line.clear();
            self.is_cut = false;
            return Some(is_empty);
        }
        if self.line.len() < LINE_MAX {
            self.line.push(byte);
        } else {
            self.is_cut = true;
        }
        None
    }

    /// Evaluates a header line. Returns whether it can be accepted.
    fn field(&mut self) -> bool {
        let mut parts = self.line.splitn(2, |byte| *byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else { return true };
        if name.eq_ignore_ascii_case(b"content-length") {
            let digits = value.trim_ascii();
            let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(digits).ok().filter(|_| is_number);
            // hyper refuses what is no number.
            self.length = Some(text.and_then(|text| text.parse().ok()).unwrap_or(0));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            self.wants_tunnel = true;
            return true;
        } else {
            return true;
        }
        !self.is_cut
    }
}

/// Returns whether this is the first line of an OPTIONS whose target is absolute and has no path and no
/// query: it is about the whole server (RFC 9112 section 3.2.4). hyper gives it a path.
fn is_about_server(line: &[u8]) -> bool {
    let Some((target, _)) = line.strip_prefix(b"OPTIONS ").and_then(|rest| split_at(rest, b" ")) else {
        return false;
    };
    split_at(target, b"://").is_some_and(|(_, authority)| {
        !authority.is_empty() && !authority.iter().any(|byte| b"/?#".contains(byte))
    })
}

/// Splits bytes at the first separator.
fn split_at<'a>(bytes: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = bytes.windows(separator.len()).position(|window| window == separator)?;
    Some((bytes.get(..at)?, bytes.get(at + separator.len()..)?))
}

#[cfg(test)]
mod tests;
