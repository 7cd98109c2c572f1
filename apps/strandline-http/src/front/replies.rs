//! What a connection of HTTP/2 writes. The library below hyper answers requests whose head is too large by
//! 431, without a word to hyper or its service.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Frame types and flags (RFC 9113 section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const FRAME_HEADER_BYTES: usize = 9;
/// Bytes of a header block that may be a status alone, with changes of the table's size before it.
const STATUS_BYTES_MAX: usize = 32;
/// Responses without their end that are remembered. Those that the client resets have none.
const BEGUN_MAX: usize = 1024;

/// Reads the frames that a server writes, and finds responses that are nothing but a status. Those of hyper
/// have a date.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// The header of a frame as far as it was written.
    header: Vec<u8>,
    /// Bytes of the frame's payload that follow.
    left: usize,
    /// A payload that is examined, with its stream.
    block: Option<(u32, Vec<u8>)>,
    /// Streams whose responses go on.
    begun: BTreeSet<u32>,
    /// Up to this stream responses may have been forgotten.
    forgotten: u32,
}

impl Replies {
    /// Takes bytes that were written. Returns the number of responses that are nothing but a status.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> usize {
        let mut found = 0;
        while !bytes.is_empty() {
            if self.left > 0 {
                let (payload, rest) = bytes.split_at(self.left.min(bytes.len()));
                self.left -= payload.len();
                if let Some((_, block)) = &mut self.block {
                    block.extend_from_slice(payload);
                }
                bytes = rest;
            } else {
                let (part, rest) = bytes.split_at((FRAME_HEADER_BYTES - self.header.len()).min(bytes.len()));
                self.header.extend_from_slice(part);
                bytes = rest;
                if self.header.len() == FRAME_HEADER_BYTES {
                    self.on_header();
                }
            }
            if self.left == 0
                && self.header.is_empty()
                && let Some((stream, block)) = self.block.take()
            {
                found += usize::from(stream > self.forgotten && is_one_field(&block));
            }
        }
        found
    }

    fn on_header(&mut self) {
        let header = std::mem::take(&mut self.header);
        let &[high, middle, low, kind, flags, a, b, c, d] = header.as_slice() else { return };
        self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
        let stream = u32::from_be_bytes([a & 0x7f, b, c, d]);
        let is_end = flags & END_STREAM != 0;
        match kind {
            // Trailers follow the head of the response.
            HEADERS | DATA if is_end => {
                let is_first = !self.begun.remove(&stream);
                if kind == HEADERS && is_first && flags & END_HEADERS != 0 && self.left <= STATUS_BYTES_MAX {
                    self.block = Some((stream, Vec::new()));
                }
            }
            HEADERS => {
                self.begun.insert(stream);
                if self.begun.len() > BEGUN_MAX {
                    self.forgotten = self.begun.pop_first().unwrap_or_default().max(self.forgotten);
                }
            }
            RST_STREAM => {
                self.begun.remove(&stream);
            }
            _ => {}
        }
    }
}

/// Returns whether a header block (RFC 7541 section 6) is one field, the name of which is in a table.
fn is_one_field(mut block: &[u8]) -> bool {
    while block.first().is_some_and(|first| first & 0xe0 == 0x20) {
        let Some((_, rest)) = integer(block, 5) else { return false };
        block = rest;
    }
    let Some(first) = block.first() else { return false };
    if first & 0x80 != 0 {
        return integer(block, 7).is_some_and(|(_, rest)| rest.is_empty());
    }
    let prefix = if first & 0x40 != 0 { 6 } else { 4 };
    let value = integer(block, prefix).filter(|(name, _)| *name != 0).and_then(|(_, rest)| integer(rest, 7));
    value.is_some_and(|(len, rest)| rest.len() == len)
}

/// Reads an integer with a prefix of some bits (RFC 7541 section 5.1). Returns what follows, too.
fn integer(bytes: &[u8], prefix: u32) -> Option<(usize, &[u8])> {
    let (first, mut rest) = bytes.split_first()?;
    let most = (1_usize << prefix) - 1;
    let mut value = usize::from(*first) & most;
    if value < most {
        return Some((value, rest));
    }
    for shift in [0, 7, 14] {
        let (next, later) = rest.split_first()?;
        value += usize::from(next & 0x7f) << shift;
        rest = later;
        if next & 0x80 == 0 {
            return Some((value, rest));
        }
    }
    None
}

/// A connection of HTTP/2 below hyper, which reports the answers that hyper knows nothing of.
pub(super) struct Watched<T> {
    inner: T,
    replies: Replies,
    on_refused: Box<dyn Fn() + Send + Sync>,
}

impl<T> Watched<T> {
    /// Calls `on_refused` for each 431.
    pub(super) fn new(inner: T, on_refused: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { inner, replies: Replies::default(), on_refused }
    }

    fn on_write(&mut self, bytes: &[u8]) {
        for _ in 0..self.replies.feed(bytes) {
            (self.on_refused)();
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.inner).poll_write(cx, buf))?;
        this.on_write(buf.get(..written).unwrap_or_default());
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.inner).poll_write_vectored(cx, bufs))?;
        let mut left = written;
        for part in bufs {
            let new = part.get(..left.min(part.len())).unwrap_or_default();
            this.on_write(new);
            left -= new.len();
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
