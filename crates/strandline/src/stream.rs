//! Streams of an association as byte streams, and as message streams with their own reader.

mod expected;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use strandline_proto::event::{Message, SendInfo};
use strandline_proto::number::{Ppid, Ssn, StreamId};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::expected::Expected;
use crate::error::{Ended, RecvError, SendError};
use crate::handle::Handle;
use crate::shard::attempt::{self, Attempt};
use crate::shard::place::Place;
use crate::shard::state::State;
use crate::wait::Token;

/// Largest message that one write sends, in bytes. The engine copies messages of this size into blocks that it reuses.
const WRITE_MAX: usize = 16 << 10;

/// One stream of an association as a byte stream: [`AsyncRead`] and [`AsyncWrite`].
///
/// Written bytes are sent as messages of up to 16 KiB. Reading returns the bytes of the messages in order,
/// without message boundaries. Reading ends when the peer shuts down the *association*: a single SCTP stream
/// can't be closed (see [`Association`](crate::Association#closing)). If the peer loses its state and sets up
/// the association anew, or the stream is [reset](crate::Control::reset_streams), the read after the last byte from
/// before fails once with [`ConnectionReset`](io::ErrorKind::ConnectionReset): the byte stream may have a hole there,
/// and something else begins. If the peer [gives messages up](crate::Reliability), the read after the last byte before
/// them fails once with [`RecvError::Abandoned`] inside, also at the end.
///
/// While the handle exists, [`Association::recv`](crate::Association::recv) doesn't return the stream's
/// messages. If this handle isn't read while others are, its messages are held here up to the size of the
/// receive buffer; then the window of the whole association closes.
///
/// ```
/// use strandline::{Association, Listener, Peer, Stack, StreamId};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// # use strandline::memory::Network;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
/// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
/// # let listener = Listener::bind(&there, 7)?;
/// # let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
/// # let server = listener.accept().await?;
/// let mut out = client.open(StreamId(5))?;
/// out.write_all(b"line one\nline two\n").await?;
///
/// let mut first = [0; 9];
/// server.open(StreamId(5))?.read_exact(&mut first).await?;
/// assert_eq!(&first, b"line one\n");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Stream {
    recv: RecvStream,
    send: SendStream,
}

impl Stream {
    pub(crate) fn new(recv: RecvStream, send: SendStream) -> Self {
        Self { recv, send }
    }

    /// Returns the stream's number.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.recv.stream
    }

    /// Splits the stream into its two directions, for use in two tasks.
    #[must_use]
    pub fn into_split(self) -> (RecvStream, SendStream) {
        (self.recv, self.send)
    }

    /// Borrows the two directions.
    pub fn split(&mut self) -> (&mut RecvStream, &mut SendStream) {
        (&mut self.recv, &mut self.send)
    }
}

/// The incoming direction of a stream. Dropping it returns unread messages to
/// [`Association::recv`](crate::Association::recv).
#[derive(Debug)]
pub struct RecvStream {
    handle: Arc<Handle>,
    stream: StreamId,
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
        Self { handle, stream, rest: Bytes::new(), expected, token: None }
    }

    /// Returns the stream's number.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.stream
    }

    fn place(&self) -> Place {
        Place::ReadStream(self.handle.id(), self.stream)
    }

    /// Receives the next message of the stream; `None` once the peer has shut down and every message was read.
    /// Bytes that `read` left of a message are not returned here.
    ///
    /// # Errors
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
        let run = |state: &mut State, now| state.poll_recv(now, id, Some(stream));
        let received = Attempt::new(self.handle.shard(), self.place(), run).await;
        self.expected.on_received(&received);
        received
    }

    /// Returns an error once if messages are missing at the end of the stream.
    fn end(&mut self) -> io::Result<()> {
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
            let run = |state: &mut State, now| state.poll_recv(now, id, Some(stream));
            let message = ready!(attempt::poll(this.handle.shard(), place, &mut this.token, cx, run));
            let misses = this.expected.on_received(&message);
            match message {
                Ok(Some(message)) => this.rest = message.data,
                Ok(None) => return Poll::Ready(this.end()),
                Err(RecvError::Ended(ended)) => return Poll::Ready(Err(io_error(ended))),
                Err(error @ (RecvError::Restarted | RecvError::Reset)) => {
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
        self.handle.shard().with(|state, _| state.unclaim(id, stream));
    }
}

/// The outgoing direction of a stream. Any number of handles may send on one stream.
#[derive(Debug)]
pub struct SendStream {
    handle: Arc<Handle>,
    stream: StreamId,
    ppid: Ppid,
    closed: bool,
    token: Token,
}

impl SendStream {
    pub(crate) fn new(handle: Arc<Handle>, stream: StreamId) -> Self {
        Self { handle, stream, ppid: Ppid(0), closed: false, token: None }
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
        Place::WritePolled(self.handle.id())
    }

    fn info(&self) -> SendInfo {
        SendInfo::on(self.stream).ppid(self.ppid)
    }

    /// Sends one message. Waits while the send buffer is full.
    ///
    /// # Errors
    /// If the message can't be sent: see [`SendError`].
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the message was not sent.
    pub async fn send(&mut self, mut data: Bytes) -> Result<(), SendError> {
        let (id, info) = (self.handle.id(), self.info());
        let run = |state: &mut State, now| state.poll_send(now, id, info, &mut data);
        Attempt::new(self.handle.shard(), Place::Write(id), run).await
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
        let run = |state: &mut State, now| state.poll_send_slice(now, id, info, part);
        // Streams that wait for room don't hold up one that has room of its own.
        let is_ahead = |state: &State| state.engine.fits_reserve(id, info.stream, part.len());
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

    /// Ends writing with this handle. The peer doesn't notice: a single SCTP stream can't be closed.
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().closed = true;
        Poll::Ready(Ok(()))
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        attempt::forget(self.handle.shard(), self.place(), &mut self.token);
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().recv).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().send).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().send).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().send).poll_shutdown(cx)
    }
}

/// Returns the I/O error for an association that did not end gracefully.
fn io_error(ended: Ended) -> io::Error {
    let kind = match ended {
        Ended::ShutDown => io::ErrorKind::BrokenPipe,
        Ended::PeerAborted { .. } => io::ErrorKind::ConnectionReset,
        Ended::TimedOut => io::ErrorKind::TimedOut,
        Ended::Unreachable => io::ErrorKind::ConnectionRefused,
        Ended::NoRoute => io::ErrorKind::NetworkUnreachable,
        Ended::Aborted | Ended::ProtocolViolation(_) | Ended::StackClosed => io::ErrorKind::ConnectionAborted,
    };
    io::Error::new(kind, ended)
}
