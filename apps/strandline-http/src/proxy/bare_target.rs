//! Requests about a whole server on their way to another proxy.
//!
//! Their target is absolute and has no path (RFC 9112 section 3.2.4): the last proxy turns that into `*`.
//! hyper writes each absolute target with a path, which [`BareTarget`] takes out again.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::front::Lingering;

/// What ends the first line of a request whose path is `/`.
const PATH_AND_VERSION: &[u8] = b"/ HTTP/1.1\r\n";

/// A connection for one request, the target of which loses its path.
pub(super) struct BareTarget<T> {
    inner: T,
    has_target: bool,
    /// Bytes that hyper has written, and that were not sent yet.
    waiting: BytesMut,
}

impl<T> BareTarget<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, has_target: false, waiting: BytesMut::new() }
    }

    /// Takes the beginning of the request.
    fn begin(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
        let end = self.waiting.windows(2).position(|window| window == b"\r\n");
        let Some(end) = end.map(|end| end + 2) else { return };
        self.has_target = true;
        let line = self.waiting.split_to(end);
        let bare = line.strip_suffix(PATH_AND_VERSION);
        let bare = bare.map(|bare| [bare, PATH_AND_VERSION.get(1..).unwrap_or_default()].concat());
        let rest = std::mem::take(&mut self.waiting);
        self.waiting.extend_from_slice(bare.as_deref().unwrap_or(&line));
        self.waiting.extend_from_slice(&rest);
    }
}

impl<T: AsyncWrite + Unpin> BareTarget<T> {
    /// Sends what waits, once the first line is whole.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.has_target && !self.waiting.is_empty() {
            let count = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.waiting))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.waiting.advance(count);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: Lingering> Lingering for BareTarget<T> {
    fn reset_on_close(&self) {
        self.inner.reset_on_close();
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for BareTarget<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for BareTarget<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if !this.has_target {
            this.begin(buf);
            return Poll::Ready(Ok(buf.len()));
        }
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.inner).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
