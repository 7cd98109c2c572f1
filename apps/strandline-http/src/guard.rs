//! A connection of HTTP/1 as hyper sees it.
//!
//! - Requests whose [framing](crate::framing) is ambiguous are refused: [`Guard`] spoils the end of the head, so that
//!   hyper answers 400 and closes the connection, or fails in the middle of the body.
//! - A client that has sent its end may still wait for the response (RFC 9112 section 9.6). hyper would take
//!   that for the client's disappearance, so it sees the end only once nothing is in progress. A reset is
//!   passed on at once.
//! - Bytes behind a request that asks for a tunnel are kept back until its response says whose they are.
//! - Interim responses of the service go out, and hyper's own answers are reported.
//! - A client may still be sending a request that was answered and won't be read. Closing a TCP connection
//!   then would reset it, and the client might lose the answer. The rest is read and dropped for some time
//!   (RFC 9112 section 9.6).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use hyper::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::exchange::Exchange;
use crate::framing::{Framing, Stop};
use crate::interim::Interim;

/// Called with the status of an answer that hyper gives itself, because it can't read the head of a request.
pub(crate) type OnRefused = Box<dyn Fn(StatusCode) + Send + Sync>;

/// A connection of HTTP/1 below hyper.
pub(crate) struct Guard<T> {
    inner: T,
    framing: Framing,
    exchange: Exchange,
    interim: Interim,
    on_refused: OnRefused,
    /// Set once something is refused.
    refused: Option<Rest>,
    /// Bytes behind a request that asks for a tunnel.
    kept: Bytes,
    /// Whether the client has sent its end.
    has_ended: bool,
    /// Time for which the rest of a request is read after the end of the connection was sent.
    rest_timeout: Duration,
    /// Runs once that was sent.
    closing: Option<Pin<Box<Sleep>>>,
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
/// Bytes that are dropped at once, and how often in turn.
const REST_PIECE: usize = 16 << 10;
const REST_PIECES: usize = 16;

impl<T> Guard<T> {
    pub(crate) fn new(inner: T, exchange: Exchange, interim: Interim, on_refused: OnRefused) -> Self {
        Self {
            inner,
            framing: Framing::new(),
            exchange,
            interim,
            on_refused,
            refused: None,
            kept: Bytes::new(),
            has_ended: false,
            rest_timeout: Duration::ZERO,
            closing: None,
        }
    }

    /// Sets the time for which the rest of a request is read that was answered before its end. By default it
    /// isn't read.
    pub(crate) fn rest_timeout(mut self, limit: Duration) -> Self {
        self.rest_timeout = limit;
        self
    }

    /// Passes what was read behind `before` through the framing.
    fn examine(&mut self, buf: &mut ReadBuf<'_>, before: usize) -> io::Result<()> {
        let new = buf.filled_mut().get_mut(before..).unwrap_or_default();
        let stop = self.framing.feed(new);
        for number in self.framing.take_about_server() {
            self.exchange.note_about_server(number);
        }
        match stop {
            Some(Stop::Head(last)) => {
                // NUL is no part of any head.
                if let Some(byte) = new.get_mut(last) {
                    *byte = 0;
                }
                buf.set_filled(before + last + 1);
                self.refused = Some(Rest::Bytes(HEAD_END));
            }
            Some(Stop::Body(first)) => {
                buf.set_filled(before + first);
                self.refused = Some(Rest::Error);
                // Without a byte this would be the end.
                if first == 0 {
                    return Err(malformed());
                }
            }
            Some(Stop::Undecided(first)) => {
                self.kept = Bytes::copy_from_slice(new.get(first..).unwrap_or_default());
                buf.set_filled(before + first);
            }
            None => {}
        }
        Ok(())
    }

    /// Takes bytes that were kept back.
    fn take_kept(&mut self, buf: &mut ReadBuf<'_>) {
        let count = self.kept.len().min(buf.remaining());
        buf.put_slice(self.kept.get(..count).unwrap_or_default());
        self.kept.advance(count);
    }

    /// Reports an answer of hyper itself.
    fn on_write(&self, bytes: &[u8]) {
        if self.exchange.is_hypers_own()
            && let Some(status) = bytes.strip_prefix(b"HTTP/1.1 ").or(bytes.strip_prefix(b"HTTP/1.0 "))
            && let Some(Ok(status)) = status.get(..3).map(StatusCode::from_bytes)
            && status.is_client_error()
        {
            (self.on_refused)(status);
        }
    }
}

impl<T: AsyncRead + Unpin> Guard<T> {
    /// Reads while nothing is refused, and the connection is no tunnel.
    fn poll_requests(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let is_idle = self.exchange.is_idle();
        if is_idle {
            self.framing.no_tunnel();
        }
        let before = buf.filled().len();
        if !self.kept.is_empty() {
            if !is_idle {
                self.exchange.wake_later(cx);
                return Poll::Pending;
            }
            self.take_kept(buf);
            // What is left is fed again.
            let left = std::mem::take(&mut self.kept);
            let examined = self.examine(buf, before);
            self.kept = if self.kept.is_empty() { left } else { [&self.kept[..], &left[..]].concat().into() };
            return Poll::Ready(examined);
        }
        match Pin::new(&mut self.inner).poll_read(cx, buf) {
            Poll::Ready(read) => read?,
            Poll::Pending if !self.has_ended => return Poll::Pending,
            Poll::Pending => {}
        }
        // After its end a client may still reset the connection, which is an error.
        self.has_ended |= buf.filled().len() == before;
        if self.has_ended {
            if is_idle || !self.framing.is_between_requests() {
                return Poll::Ready(Ok(()));
            }
            self.exchange.wake_later(cx);
            return Poll::Pending;
        }
        self.examine(buf, before)?;
        if buf.filled().len() > before {
            return Poll::Ready(Ok(()));
        }
        // All is kept back: hyper would take this for the end.
        self.exchange.wake_later(cx);
        Poll::Pending
    }
}

impl<T: AsyncRead + Unpin> Guard<T> {
    /// Reads the rest of a request until its connection ends or fails, and drops it.
    fn poll_drop_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut piece = [0; REST_PIECE];
        for _ in 0..REST_PIECES {
            let mut buf = ReadBuf::new(&mut piece);
            match ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {}
                _ => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guard<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
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
        if !this.exchange.is_tunnel() {
            return this.poll_requests(cx, buf);
        }
        if this.kept.is_empty() {
            return Pin::new(&mut this.inner).poll_read(cx, buf);
        }
        this.take_kept(buf);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guard<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.interim.poll_write(&mut this.inner, cx))?;
        this.interim.on_write();
        let written = ready!(Pin::new(&mut this.inner).poll_write(cx, buf))?;
        this.on_write(buf);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.interim.poll_write(&mut this.inner, cx))?;
        this.interim.on_write();
        let written = ready!(Pin::new(&mut this.inner).poll_write_vectored(cx, bufs))?;
        this.on_write(bufs.iter().find(|part| !part.is_empty()).map_or(&[], |part| part));
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.interim.poll_write(&mut this.inner, cx))?;
        this.interim.on_flush(cx);
        this.exchange.on_flush();
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.closing.is_none() {
            ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
            let is_whole = this.has_ended || this.exchange.is_tunnel() || this.framing.is_between_requests();
            if is_whole || this.rest_timeout.is_zero() {
                return Poll::Ready(Ok(()));
            }
        }
        let limit = this.rest_timeout;
        let closing = this.closing.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        if closing.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        this.poll_drop_rest(cx).map(Ok)
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the framing of a request's body is malformed")
}
