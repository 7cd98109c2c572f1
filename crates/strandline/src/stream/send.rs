//! The outgoing direction of a stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use strandline_proto::event::SendInfo;
use strandline_proto::number::{Ppid, StreamId};
use tokio::io::AsyncWrite;

use super::io_error;
use crate::error::{FinishError, SendError};
use crate::handle::Handle;
use crate::shard::attempt::{self, Attempt};
use crate::shard::dynamic_streams::Key;
use crate::shard::place::Place;
use crate::shard::state::State;
use crate::shard::streams::{DynamicOf, is_refused};
use crate::wait::Token;

/// Largest message that one write sends, in bytes. The engine copies messages of this size into blocks that it reuses.
const WRITE_MAX: usize = 16 << 10;

/// The outgoing direction of a stream. Any number of handles may send on one stream with a fixed number.
///
/// Dropping that of a dynamic stream [resets](Self::reset) it, unless it was [finished](Self::finish): what its task could
/// not complete never looks complete to the peer.
#[derive(Debug)]
pub struct SendStream {
    handle: Arc<Handle>,
    stream: StreamId,
    /// The use of a number of a dynamic stream.
    dynamic: Option<Key>,
    ppid: Ppid,
    closed: bool,
    token: Token,
}

impl SendStream {
    pub(crate) fn new(handle: Arc<Handle>, stream: StreamId) -> Self {
        Self { handle, stream, dynamic: None, ppid: Ppid(0), closed: false, token: None }
    }

    /// The writer of a dynamic stream.
    pub(crate) fn dynamic(handle: Arc<Handle>, key: Key) -> Self {
        let mut stream = Self::new(handle, key.stream);
        stream.dynamic = Some(key);
        stream
    }

    /// Returns the stream's number.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.stream
    }

    /// Sets the payload protocol identifier of messages sent from now on. Default: 0.
    pub fn set_ppid(&mut self, ppid: Ppid) {
        self.ppid = ppid;
    }

    /// The queue in which [`AsyncWrite`] waits.
    fn place(&self) -> Place {
        Place::WritePolled(self.handle.id(), Some(self.stream))
    }

    /// Finishes a dynamic stream: the peer's reader gets the end once it has everything that was sent before. Nothing more
    /// can be sent. Returns at once; [`finished`](Self::finished) waits. A second call has no effect.
    ///
    /// # Errors
    /// [`SendError::Stopped`] if the peer reads no more, [`SendError::Lost`], or if the association has ended.
    /// [`SendError::NotDynamic`] for a stream with a fixed number.
    pub fn finish(&mut self) -> Result<(), SendError> {
        let key = self.dynamic.ok_or(SendError::NotDynamic)?;
        let id = self.handle.id();
        self.handle.shard().with(|state, now| DynamicOf::of(state).finish(now, id, key))
    }

    /// Waits until the peer has everything of a stream that was [finished](Self::finish), and both sides count it as closed.
    /// Before it is finished, it waits for that, too, or until the peer asks to stop.
    ///
    /// # Errors
    /// If it is not certain that the peer has everything.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn finished(&mut self) -> Result<(), FinishError> {
        let key = self.dynamic.ok_or(FinishError::NotDynamic)?;
        let id = self.handle.id();
        let run = |state: &mut State, _| DynamicOf::of(state).poll_finished(id, key);
        Attempt::new(self.handle.shard(), Place::Finish(id, key), run).await
    }

    /// Gives up what the peer has not acknowledged, and ends a dynamic stream so that the peer's reader gets
    /// [`RecvError::Unfinished`](crate::RecvError::Unfinished). Dropping the writer does the same. Without effect after
    /// [`finish`](Self::finish).
    ///
    /// If the peer does not support partial reliability ([`Status`](crate::Status)), it can't be told: its reader waits until
    /// the association ends, and the number of the stream is not used again.
    pub fn reset(self) {}

    fn info(&self) -> SendInfo {
        SendInfo::on(self.stream).ppid(self.ppid)
    }

    /// Sends one message. Waits while the send buffer is full. Messages of one stream are sent in the order of the calls.
    ///
    /// # Errors
    /// If the message can't be sent: see [`SendError`].
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the message was not sent.
    pub async fn send(&mut self, mut data: Bytes) -> Result<(), SendError> {
        let (id, info, dynamic) = (self.handle.id(), self.info(), self.dynamic);
        let len = data.len();
        let run = |state: &mut State, now| match dynamic {
            None => state.poll_send(now, id, info, &mut data),
            Some(key) => DynamicOf::of(state)
                .poll_send_dynamic(now, id, key, len, |engine| engine.send_from(now, id, info, &mut data)),
        };
        let place = Place::Write(id, info.stream);
        // Streams that wait for room don't hold up one that has room of its own. Of a dynamic stream there is one writer.
        let is_ahead = move |state: &State| {
            let passes = dynamic.is_some() && state.engine.fits_reserve(id, info.stream, len);
            passes || is_refused(state, id, dynamic)
        };
        Attempt::ahead_if(self.handle.shard(), place, is_ahead, run).await
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let Some(part) = buf.get(..buf.len().min(WRITE_MAX)).filter(|part| !part.is_empty()) else {
            return Poll::Ready(Ok(0));
        };
        let (id, info) = (this.handle.id(), this.info());
        let dynamic = this.dynamic;
        let run = |state: &mut State, now| match dynamic {
            None => state.poll_send_slice(now, id, info, part),
            Some(key) => DynamicOf::of(state)
                .poll_send_dynamic(now, id, key, part.len(), |engine| engine.send_slice(now, id, info, part)),
        };
        // Streams that wait for room don't hold up one that has room of its own.
        let is_ahead = |state: &State| {
            state.engine.fits_reserve(id, info.stream, part.len()) || is_refused(state, id, dynamic)
        };
        let (shard, place) = (this.handle.shard(), this.place());
        match ready!(attempt::poll_ahead(shard, place, &mut this.token, cx, is_ahead, run)) {
            Ok(()) => Poll::Ready(Ok(part.len())),
            Err(SendError::Ended(ended)) => Poll::Ready(Err(io_error(ended))),
            Err(error) => Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, error))),
        }
    }

    /// Returns at once: written data is already queued for sending.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// [Finishes](SendStream::finish) a dynamic stream. For others it ends writing with this handle, and the peer doesn't
    /// notice.
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.closed = true;
        if this.dynamic.is_none() {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(this.finish().map_err(|error| io::Error::new(io::ErrorKind::BrokenPipe, error)))
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        attempt::forget(self.handle.shard(), self.place(), &mut self.token);
        if let Some(key) = self.dynamic {
            let id = self.handle.id();
            self.handle.shard().with(|state, now| DynamicOf::of(state).reset_sending(now, id, key));
        }
    }
}
