//! Interim responses (RFC 9110 section 15.2) on connections of HTTP/1.1.
//!
//! A service of hyper returns one response, so that it can't send a 103 before that. [`Interim`] lets it: what is
//! pushed goes out below hyper, before the next bytes that hyper writes. That is possible only while hyper has
//! written all of earlier responses.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BytesMut};
use hyper::StatusCode;
use hyper::header::HeaderMap;
use tokio::io::AsyncWrite;

/// Bytes of interim responses that wait to be sent at most. Further responses are dropped.
const QUEUED_MAX: usize = 16 << 10;

/// Sends interim responses on a connection of HTTP/1.1. It is an extension of each request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interim(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    queued: BytesMut,
    /// hyper has written bytes that may not be all of a response's head or body.
    is_writing: bool,
    /// The task of the connection.
    task: Option<Waker>,
}

impl Interim {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a response before the final one. It is dropped if an earlier response is still being written, which
    /// happens only to a client that pipelines.
    pub(crate) fn push(&self, status: StatusCode, headers: &HeaderMap) {
        let mut state = self.lock();
        if state.is_writing {
            return;
        }
        let mut head =
            format!("HTTP/1.1 {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or_default())
                .into_bytes();
        for (name, value) in headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        head.extend_from_slice(b"\r\n");
        if state.queued.len() + head.len() > QUEUED_MAX {
            return;
        }
        state.queued.extend_from_slice(&head);
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Writes what was pushed, before hyper writes.
    pub(crate) fn poll_write<T: AsyncWrite + Unpin>(
        &self,
        io: &mut T,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        while !state.queued.is_empty() {
            let count = ready!(Pin::new(&mut *io).poll_write(cx, &state.queued))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            state.queued.advance(count);
        }
        Poll::Ready(Ok(()))
    }

    /// Notes that hyper writes.
    pub(crate) fn on_write(&self) {
        self.lock().is_writing = true;
    }

    /// Notes that hyper has written all that it had, and waits.
    pub(crate) fn on_flush(&self, cx: &Context<'_>) {
        let mut state = self.lock();
        state.is_writing = false;
        match &mut state.task {
            Some(task) => task.clone_from(cx.waker()),
            None => state.task = Some(cx.waker().clone()),
        }
    }
}

#[cfg(test)]
mod tests;
