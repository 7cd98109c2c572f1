//! Connections that close by a reset if what they carried is incomplete.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::preface::Prefixed;
use super::tls::TlsStream;
use crate::stall::Broken;
use crate::streams::HttpStream;

/// A socket that can be told how to close.
pub(crate) trait Lingering {
    /// Lets the socket close by a reset.
    fn reset_on_close(&self);
}

impl Lingering for TcpStream {
    fn reset_on_close(&self) {
        // If it fails, the connection ends by FIN, as it would have anyway.
        let _ = set_socket_linger(self, Some(Duration::ZERO));
    }
}

impl Lingering for TlsStream {
    fn reset_on_close(&self) {
        self.tcp().reset_on_close();
    }
}

impl Lingering for UnixStream {
    /// Does nothing: sockets of this machine know no reset.
    fn reset_on_close(&self) {}
}

impl Lingering for HttpStream {
    /// Does nothing: a stream that is dropped resets its connection.
    fn reset_on_close(&self) {}
}

impl<T: Lingering + ?Sized> Lingering for Box<T> {
    fn reset_on_close(&self) {
        T::reset_on_close(self);
    }
}

impl<T: Lingering> Lingering for Prefixed<T> {
    fn reset_on_close(&self) {
        self.inner().reset_on_close();
    }
}

/// A connection that closes by a reset if it is broken.
#[derive(Debug)]
pub(crate) struct Breakable<T: Lingering> {
    inner: T,
    broken: Broken,
}

impl<T: Lingering> Breakable<T> {
    pub(crate) fn new(inner: T, broken: Broken) -> Self {
        Self { inner, broken }
    }
}

impl<T: Lingering> Drop for Breakable<T> {
    fn drop(&mut self) {
        if self.broken.is_set() {
            self.inner.reset_on_close();
        }
    }
}

impl<T: Lingering + AsyncRead + Unpin> AsyncRead for Breakable<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<T: Lingering + AsyncWrite + Unpin> AsyncWrite for Breakable<T> {
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
