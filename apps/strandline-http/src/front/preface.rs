//! Tells HTTP/2 from HTTP/1.1 by the first bytes of a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// What a client of HTTP/2 sends first (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection whose first bytes were read already, and are read again.
#[derive(Debug)]
pub(super) struct Prefixed<T> {
    prefix: Bytes,
    inner: T,
}

impl<T> Prefixed<T> {
    /// Returns the connection itself.
    pub(super) const fn inner(&self) -> &T {
        &self.inner
    }
}

impl<T: AsyncRead + Unpin> Prefixed<T> {
    /// Reads until it is clear whether the client speaks HTTP/2, and returns whether it does.
    ///
    /// # Errors
    /// If reading fails. A connection that ends early is one of HTTP/1.1.
    pub(super) async fn read(mut inner: T) -> io::Result<(Self, bool)> {
        let mut first = [0; PREFACE.len()];
        let mut len = 0;
        while len < PREFACE.len() && PREFACE.starts_with(first.get(..len).unwrap_or_default()) {
            match inner.read(first.get_mut(len..).unwrap_or_default()).await? {
                0 => break,
                count => len += count,
            }
        }
        let prefix = Bytes::copy_from_slice(first.get(..len).unwrap_or_default());
        let is_http2 = prefix == PREFACE;
        Ok((Self { prefix, inner }, is_http2))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Prefixed<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.prefix.is_empty() {
            return Pin::new(&mut this.inner).poll_read(cx, buf);
        }
        let count = this.prefix.len().min(buf.remaining());
        buf.put_slice(this.prefix.get(..count).unwrap_or_default());
        this.prefix.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Prefixed<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(cx, bufs)
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
