//! TCP connections whose bytes are counted as they are written.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TCP connection, and what counts the bytes that are written to it.
pub(super) struct Counted<F> {
    pub(super) tcp: TcpStream,
    /// Whether reading or writing has failed.
    pub(super) failed: bool,
    add: F,
}

impl<F> Counted<F> {
    pub(super) const fn new(tcp: TcpStream, add: F) -> Self {
        Self { tcp, failed: false, add }
    }

    fn note<T>(&mut self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.failed |= matches!(result, Poll::Ready(Err(_)));
        result
    }
}

impl<F: Fn(usize) + Unpin> AsyncRead for Counted<F> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.tcp).poll_read(cx, buffer);
        this.note(read)
    }
}

impl<F: Fn(usize) + Unpin> AsyncWrite for Counted<F> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.tcp).poll_write(cx, data);
        if let Poll::Ready(Ok(len)) = written {
            (this.add)(len);
        }
        this.note(written)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.tcp).poll_flush(cx);
        this.note(flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.tcp).poll_shutdown(cx);
        this.note(shut)
    }
}
