//! Streams of associations that may not be established yet.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use strandline::{Association, Ended};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tower_service::Service;

use super::failure::SetUpFailed;
use crate::client::Connector;
use crate::front::Lingering;
use crate::streams::{ConnectionError, HttpStream};

/// A stream whose first request may leave with the COOKIE ECHO. Errors from before the association was established
/// say so by [`SetUpFailed`].
pub(super) struct Early {
    stream: HttpStream,
    /// Whether the set-up took too long.
    is_late: Arc<AtomicBool>,
}

/// Opens a stream of an association. One that isn't established yet is aborted unless it is within `limit`.
pub(super) async fn open(mut connector: Connector, uri: Uri, limit: Duration) -> io::Result<Early> {
    let begun = now();
    let stream = loop {
        match connector.call(uri.clone()).await {
            Ok(stream) => break stream.into_inner(),
            // The set-up that was waited for took too long for the request that had begun it.
            Err(error) if is_aborted(&error) => {}
            Err(error) => return Err(error),
        }
    };
    let is_late = Arc::new(AtomicBool::new(false));
    let association = stream.association().association().clone();
    let left = limit.saturating_sub(begun.elapsed());
    tokio::spawn(limit_set_up(association, left, Arc::clone(&is_late)));
    Ok(Early { stream, is_late })
}

/// Returns whether no connection could be opened because this side has aborted the association.
fn is_aborted(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(ConnectionError::Ended(Ended::Aborted)))
}

/// Aborts an association that isn't established in time.
async fn limit_set_up(association: Association, limit: Duration, is_late: Arc<AtomicBool>) {
    if tokio::time::timeout(limit, association.established()).await.is_err() {
        is_late.store(true, Ordering::Release);
        association.abort("the set-up takes too long");
    }
}

impl Early {
    /// Adds to an error that the association was not established.
    fn explain(&self, error: io::Error) -> io::Error {
        let is_late = self.is_late.load(Ordering::Acquire);
        let status = self.stream.association().association().status();
        // Nothing is sent before the COOKIE ECHO.
        let is_unsent = status.is_some_and(|status| status.stats.data_sent == 0);
        let kind = match error.kind() {
            _ if is_late => io::ErrorKind::TimedOut,
            // An ABORT in response to the INIT.
            io::ErrorKind::ConnectionReset if is_unsent => io::ErrorKind::ConnectionRefused,
            kind => kind,
        };
        if is_late || is_unsent {
            io::Error::new(kind, SetUpFailed { is_unsent, cause: error })
        } else {
            error
        }
    }

    fn check<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        polled.map_err(|error| self.explain(error))
    }
}

impl Lingering for Early {
    /// Does nothing: a stream that is dropped resets its connection.
    fn reset_on_close(&self) {}
}

impl AsyncRead for Early {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        this.check(polled)
    }
}

impl AsyncWrite for Early {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.check(polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.check(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[allow(clippy::disallowed_methods, reason = "time-outs of the network")]
fn now() -> Instant {
    Instant::now()
}
