//! Upstream servers that answer a request before they have read it.
//!
//! Such a server may close its connection after the answer, 413 for example, which resets it if the body goes
//! on. A write that fails would make hyper forget the answer, although it has arrived. [`Readable`] therefore
//! reports no failed write: what follows is dropped, and reading yields the answer, or the end or the error
//! that shows that there is none.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Says that a connection has become a tunnel. Then writes that fail are reported. It is an extension of each response.
#[derive(Debug, Clone, Default)]
pub(super) struct BecomesTunnel(Arc<AtomicBool>);

impl BecomesTunnel {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A connection that can be read after a write has failed.
#[derive(Debug)]
pub(super) struct Readable<T> {
    inner: T,
    tunnel: BecomesTunnel,
}

impl<T> Readable<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, tunnel: BecomesTunnel::default() }
    }

    pub(super) fn tunnel(&self) -> &BecomesTunnel {
        &self.tunnel
    }

    /// Turns the failure of a write to a server that has closed the connection into success.
    fn forgive<R>(&self, written: Poll<io::Result<R>>, success: R) -> Poll<io::Result<R>> {
        match written {
            Poll::Ready(Err(error)) if is_closed(&error) && !self.tunnel.0.load(Ordering::Acquire) => {
                tracing::debug!(%error, "the server reads no more of a request");
                Poll::Ready(Ok(success))
            }
            written => written,
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

impl<T: AsyncRead + Unpin> AsyncRead for Readable<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Readable<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write(cx, buf);
        this.forgive(written, buf.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write_vectored(cx, bufs);
        this.forgive(written, bufs.iter().map(|part| part.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.inner).poll_flush(cx);
        this.forgive(flushed, ())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}
