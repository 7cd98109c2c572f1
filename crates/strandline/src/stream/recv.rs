//! The incoming direction of a stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use strandline_proto::event::Message;
use strandline_proto::number::{Ssn, StreamId};
use tokio::io::{AsyncRead, ReadBuf};

use super::expected::Expected;
use super::io_error;
use crate::error::RecvError;
use crate::handle::Handle;
use crate::shard::attempt::{self, Attempt};
use crate::shard::dynamic_streams::Key;
use crate::shard::place::Place;
use crate::shard::state::State;
use crate::shard::streams::DynamicOf;
use crate::wait::Token;

/// The incoming direction of a stream.
///
/// Dropping that of a stream with a fixed number returns unread messages to
/// [`Association::recv`](crate::Association::recv). Dropping that of a dynamic stream [stops](Self::stop) it.
#[derive(Debug)]
pub struct RecvStream {
    handle: Arc<Handle>,
    stream: StreamId,
    /// The use of a number of a dynamic stream.
    dynamic: Option<Key>,
    /// The unread bytes of a message that was read in part.
    rest: Bytes,
    expected: Expected,
    token: Token,
}

impl RecvStream {
    /// A reader that begins at the first unread message. `next` is the SSN of the next message that becomes readable,
    /// or `None` if what is unread has an earlier numbering.
    pub(crate) fn new(handle: Arc<Handle>, stream: StreamId, next: Option<Ssn>) -> Self {
        let expected = next.map_or(Expected::Any, Expected::UpTo);
        Self { handle, stream, dynamic: None, rest: Bytes::new(), expected, token: None }
    }

    /// The reader of a dynamic stream.
    pub(crate) fn dynamic(handle: Arc<Handle>, key: Key) -> Self {
        let (stream, expected) = (key.stream, Expected::Any);
        Self { handle, stream, dynamic: Some(key), rest: Bytes::new(), expected, token: None }
    }

    /// Returns the stream's number.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.stream
    }

    fn place(&self) -> Place {
        match self.dynamic {
            None => Place::ReadStream(self.handle.id(), self.stream),
            Some(key) => Place::ReadDynamic(self.handle.id(), key),
        }
    }

    /// Tells the peer to stop sending, and discards what arrives: it no longer takes part of the receive
    /// window. The peer's writes fail with [`SendError::Stopped`](crate::SendError::Stopped). Dropping the
    /// reader of a dynamic stream does the same. After the end it has no effect on the peer.
    pub fn stop(self) {}

    /// Receives the next message of the stream. Bytes that `read` left of a message are not returned here.
    /// Returns `None` at the end: for a dynamic stream once the peer has finished it, for others once the
    /// peer has shut down, and every message was read.
    ///
    /// # Errors
    /// For a dynamic stream [`RecvError::Unfinished`], after the messages before, if the peer reset it or the
    /// association was shut down before the stream was finished.
    ///
    /// If the association ended in any way other than a shutdown. [`RecvError::Restarted`] once for each restart
    /// of the peer, and [`RecvError::Reset`] once for each reset of the stream, after the messages from before it.
    /// [`RecvError::Abandoned`] once for each message of which parts were returned and that the peer gave up. A message
    /// that the peer gave up before any of it was returned is missing: the numbers in [`Message::ssn`] have a gap.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub async fn recv(&mut self) -> Result<Option<Message>, RecvError> {
        let (id, stream) = (self.handle.id(), self.stream);
        self.rest = Bytes::new();
        if let Some(key) = self.dynamic {
            let run = |state: &mut State, now| DynamicOf::of(state).poll_recv_dynamic(now, id, key);
            return Attempt::new(self.handle.shard(), self.place(), run).await;
        }
        let run = |state: &mut State, now| state.poll_recv(now, id, Some(stream));
        let received = Attempt::new(self.handle.shard(), self.place(), run).await;
        self.expected.on_received(&received);
        received
    }

    /// Returns an error once if messages are missing at the end of the stream.
    fn end(&mut self) -> io::Result<()> {
        if self.dynamic.is_some() {
            return Ok(()); // It is complete.
        }
        let (id, stream) = (self.handle.id(), self.stream);
        let next = self.handle.shard().with(|state, _| state.engine.gaps(id).next_ssn(stream));
        if next.is_some_and(|next| self.expected.on_end(next)) {
            return Err(io::Error::other(RecvError::Abandoned));
        }
        Ok(())
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if this.rest.is_empty() {
            let (id, stream, place) = (this.handle.id(), this.stream, this.place());
            let dynamic = this.dynamic;
            let run = |state: &mut State, now| match dynamic {
                None => state.poll_recv(now, id, Some(stream)),
                Some(key) => DynamicOf::of(state).poll_recv_dynamic(now, id, key),
            };
            let message = ready!(attempt::poll(this.handle.shard(), place, &mut this.token, cx, run));
            let misses = this.dynamic.is_none() && this.expected.on_received(&message);
            match message {
                Ok(Some(message)) => this.rest = message.data,
                Ok(None) => return Poll::Ready(this.end()),
                Err(RecvError::Ended(ended)) => return Poll::Ready(Err(io_error(ended))),
                Err(error @ (RecvError::Restarted | RecvError::Reset | RecvError::Unfinished)) => {
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, error)));
                }
                Err(other) => return Poll::Ready(Err(io::Error::other(other))),
            }
            if misses {
                return Poll::Ready(Err(io::Error::other(RecvError::Abandoned)));
            }
        }
        let take = this.rest.len().min(buf.remaining());
        buf.put_slice(this.rest.get(..take).unwrap_or_default());
        this.rest.advance(take);
        Poll::Ready(Ok(()))
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let (place, id, stream) = (self.place(), self.handle.id(), self.stream);
        attempt::forget(self.handle.shard(), place, &mut self.token);
        self.handle.shard().with(|state, now| match self.dynamic {
            None => state.unclaim(id, stream),
            Some(key) => DynamicOf::of(state).stop_reading(now, id, key),
        });
    }
}
