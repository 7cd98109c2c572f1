//! Refuses requests whose framing is ambiguous: both Content-Length and Transfer-Encoding, or lines that don't end
//! by CRLF.
//!
//! hyper goes by Transfer-Encoding and drops Content-Length, as RFC 9112 section 6.3 permits. The same section
//! advises to refuse such a request, because another server that it passed may have gone by Content-Length. hyper's
//! service can't do that: it no longer sees the Content-Length. hyper also takes a bare LF for the end of a line in
//! heads, but not in chunks and trailers, and other servers draw the line elsewhere. [`Guard`] therefore follows the
//! messages below hyper. It spoils the end of such a head, so that hyper answers 400 and closes the connection, and
//! fails in the middle of such a body.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use hyper::{Method, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::interim::Interim;

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
    /// Behind what was refused.
    Refused,
}

/// What is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A head, up to the byte at this offset, which is to be spoiled.
    Head(usize),
    /// The chunks or trailers of a body, from the byte at this offset on.
    Body(usize),
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
        }
    }

    /// Takes the next bytes. Returns what of them is to be refused; then nothing more may follow.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Option<Refused> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let left = (bytes.len() - at) as u64;
            if let Place::Body(more) | Place::Chunk(more) = self.place {
                let taken = more.min(left);
                self.place = match (self.place, more - taken) {
                    (Place::Body(_), 0) => Place::Head,
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
                return Some(if is_head { Refused::Head(at) } else { Refused::Body(at) });
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
                    self.place = Place::Head;
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
            (Place::ChunkEnd | Place::Body(_) | Place::Chunk(_) | Place::Refused, _) => return false,
        }
        true
    }

    /// Takes a byte of a head. Returns whether the head can be accepted so far.
    fn head(&mut self, byte: u8) -> bool {
        let is_end = byte == b'\n';
        if is_end && self.has_begun && !self.field() {
            return false;
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
                    None | Some(0) => Place::Head,
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
        } else {
            return true;
        }
        !self.is_cut
    }
}

/// Says whether a connection has become a tunnel, whose bytes aren't HTTP.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tunnelled(Arc<AtomicBool>);

impl Tunnelled {
    /// Notes the status of a response.
    pub(crate) fn on_response(&self, is_connect: bool, status: StatusCode) {
        if status == StatusCode::SWITCHING_PROTOCOLS || (is_connect && status.is_success()) {
            self.0.store(true, Ordering::Release);
        }
    }
}

/// Returns whether a request has the method CONNECT.
pub(crate) fn is_connect<B>(request: &hyper::Request<B>) -> bool {
    request.method() == Method::CONNECT
}

/// A connection of HTTP/1 whose ambiguous requests are spoiled, and which sends interim responses.
#[derive(Debug)]
pub(crate) struct Guard<T> {
    inner: T,
    framing: Framing,
    tunnelled: Tunnelled,
    interim: Interim,
    /// Set once something is refused.
    refused: Option<Rest>,
}

/// What is read after something was refused.
#[derive(Debug)]
enum Rest {
    /// These bytes, and then the end.
    Bytes(&'static [u8]),
    /// An error.
    Error,
}

/// Follows a spoiled head. hyper parses a head that came in parts only once its end has come.
const HEAD_END: &[u8] = b"\r\n\r\n";

impl<T> Guard<T> {
    pub(crate) fn new(inner: T, tunnelled: Tunnelled, interim: Interim) -> Self {
        Self { inner, framing: Framing::new(), tunnelled, interim, refused: None }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guard<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match &mut this.refused {
            Some(Rest::Bytes(rest)) => {
                let (now, later) = rest.split_at(rest.len().min(buf.remaining()));
                buf.put_slice(now);
                *rest = later;
                return Poll::Ready(Ok(()));
            }
            Some(Rest::Error) => return Poll::Ready(Err(malformed())),
            None => {}
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
        if this.tunnelled.0.load(Ordering::Acquire) {
            return Poll::Ready(Ok(()));
        }
        let new = buf.filled_mut().get_mut(before..).unwrap_or_default();
        match this.framing.feed(new) {
            Some(Refused::Head(last)) => {
                // NUL is no part of any head.
                if let Some(byte) = new.get_mut(last) {
                    *byte = 0;
                }
                buf.set_filled(before + last + 1);
                this.refused = Some(Rest::Bytes(HEAD_END));
            }
            Some(Refused::Body(first)) => {
                buf.set_filled(before + first);
                this.refused = Some(Rest::Error);
                // Without a byte this would be the end.
                if first == 0 {
                    return Poll::Ready(Err(malformed()));
                }
            }
            None => {}
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guard<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let Self { inner, interim, .. } = self.get_mut();
        ready!(interim.poll_write(inner, cx))?;
        interim.on_write();
        Pin::new(inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { inner, interim, .. } = self.get_mut();
        ready!(interim.poll_write(inner, cx))?;
        interim.on_write();
        Pin::new(inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { inner, interim, .. } = self.get_mut();
        ready!(interim.poll_write(inner, cx))?;
        interim.on_flush(cx);
        Pin::new(inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the framing of a request's body is malformed")
}

#[cfg(test)]
mod tests;
