//! A connection whose peer must keep reading.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Says whether a connection of HTTP/1 is to be reset instead of closed, so that its end isn't taken for the end
/// of a response.
#[derive(Debug, Clone, Default)]
pub(crate) struct Broken(Arc<AtomicBool>);

impl Broken {
    /// Lets the connection end by a reset.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Lets the connection end by a reset if the returned value is dropped before it is [done](Unfinished::done).
    pub(crate) fn unless_done(&self) -> Unfinished {
        Unfinished(Some(self.clone()))
    }

    /// Returns whether the connection is to be reset.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Something on a connection that has not come to its end.
#[derive(Debug)]
pub(crate) struct Unfinished(Option<Broken>);

impl Unfinished {
    /// Notes the end.
    pub(crate) fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(broken) = &self.0 {
            broken.set();
        }
    }
}

/// A connection that fails once a write has waited for `limit`.
#[derive(Debug)]
pub(crate) struct WriteLimit<T> {
    inner: T,
    limit: Duration,
    /// Set by a write that failed so: what it held is lost.
    broken: Broken,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<T> WriteLimit<T> {
    pub(crate) fn new(inner: T, limit: Duration) -> Self {
        Self::breaking(inner, limit, Broken::default())
    }

    /// Returns the connection itself.
    pub(crate) const fn inner(&self) -> &T {
        &self.inner
    }

    /// As [`new`](Self::new), and sets `broken` when it fails.
    pub(crate) fn breaking(inner: T, limit: Duration, broken: Broken) -> Self {
        Self { inner, limit, broken, waiting: None }
    }

    /// Passes on the result of a write, or fails if writes have waited for too long.
    fn check<R>(&mut self, written: Poll<io::Result<R>>, cx: &mut Context<'_>) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        // An overflow means that the limit is beyond any uptime.
        #[allow(clippy::disallowed_methods, reason = "a time-out of the network")]
        let Some(deadline) = Instant::now().checked_add(self.limit) else { return Poll::Pending };
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => {
                self.broken.set();
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteLimit<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WriteLimit<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write(cx, buf);
        this.check(written, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write_vectored(cx, bufs);
        this.check(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.inner).poll_flush(cx);
        this.check(flushed, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.inner).poll_shutdown(cx);
        this.check(shut, cx)
    }
}
