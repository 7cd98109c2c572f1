//! A TLS connection as tokio's traits.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::net::{Shutdown, shutdown};
use strandline_tls::{ClientTls, ServerTls, Wire};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Most bytes that are encrypted at once.
const WRITE_MAX: usize = 64 << 10;

/// A TLS connection. The server's handshake proceeds as it is read.
#[derive(Debug)]
pub(crate) struct TlsStream(Wire);

impl TlsStream {
    /// Begins TLS on an accepted connection.
    pub(super) fn accept(tcp: TcpStream, tls: &ServerTls) -> io::Result<Self> {
        Ok(Self(Wire::accepted(tcp, tls)?))
    }

    /// Begins TLS with a server, whose certificate must be for `name`.
    ///
    /// # Errors
    /// If the server isn't trusted or the connection ends.
    pub(crate) async fn connect(tcp: TcpStream, tls: &ClientTls, name: &str) -> io::Result<Self> {
        let mut wire = Some(Wire::opened(tcp, tls, name)?);
        // A handshake can be called again, so its future, which isn't Send, needn't be kept.
        std::future::poll_fn(move |cx| {
            let Some(opened) = &wire else { return Poll::Pending };
            let done = std::pin::pin!(opened.handshake()).poll(cx);
            ready!(done)?;
            wire.take().map_or(Poll::Pending, |wire| Poll::Ready(Ok(Self(wire))))
        })
        .await
    }

    /// Returns the TCP connection below.
    pub(super) fn tcp(&self) -> &TcpStream {
        self.0.tcp()
    }

    /// Sends what TLS has encrypted.
    fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.0.try_flush()? {
            ready!(self.0.tcp().poll_write_ready(cx))?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.0.try_read(buf.initialize_unfilled()) {
                Ok(count) => {
                    buf.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            // A part of the handshake may wait to be sent.
            if let Poll::Ready(Err(error)) = self.poll_send(cx) {
                return Poll::Ready(Err(error));
            }
            ready!(self.0.poll_read_ready(cx))?;
        }
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let part = buf.get(..buf.len().min(WRITE_MAX)).unwrap_or_default();
        loop {
            match self.0.try_write(part) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.0.tcp().poll_write_ready(cx))?;
                }
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        self.0.close();
        Poll::Ready(shutdown(self.0.tcp(), Shutdown::Write).map_err(io::Error::from))
    }
}
