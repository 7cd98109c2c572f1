//! Streams of an association as byte streams, and as message streams with their own reader.

mod expected;
mod recv;
mod send;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use strandline_proto::event::{Message, SendInfo};
use strandline_proto::number::StreamId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use self::recv::RecvStream;
pub use self::send::SendStream;
use crate::error::{Ended, FinishError, RecvError, SendError};

/// One stream of an association as a byte stream: [`AsyncRead`] and [`AsyncWrite`].
///
/// Written bytes are sent as messages of up to 16 KiB. Reading returns the bytes of the messages in order,
/// without message boundaries.
///
/// A stream that was [opened](crate::Association::open_stream) or
/// [accepted](crate::Association::accept_stream) at run time ends by itself: each direction is
/// [finished](SendStream::finish) or [reset](SendStream::reset) by its sender, or [stopped](RecvStream::stop)
/// by its reader.
///
/// The others, which have a fixed number, last as long as the association. Their reading ends when the peer
/// shuts down the *association* (see [`Association`](crate::Association#closing)). If the peer loses its
/// state and sets up the association anew, or the stream is [reset](crate::Control::reset_streams), the read
/// after the last byte from before fails once with [`ConnectionReset`](io::ErrorKind::ConnectionReset): the
/// byte stream may have a hole there, and something else begins. If the peer [gives messages
/// up](crate::Reliability), the read after the last byte before them fails once with
/// [`RecvError::Abandoned`](crate::RecvError::Abandoned) inside, also at the end.
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
///
/// # Messages
/// [`send`](Self::send) and [`recv`](Self::recv) keep message boundaries:
///
/// ```
/// use strandline::{Association, DynamicStreams, Listener, Peer, Stack};
/// # use strandline::memory::Network;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
/// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
/// # let listener = Listener::bind(&there, 7)?;
/// # let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
/// # let server = listener.accept().await?;
/// # for association in [&client, &server] {
/// #     association.set_dynamic_streams(DynamicStreams::default())?;
/// # }
/// let mut question = client.open_stream().await?;
/// question.send("first".into()).await?;
/// question.send("second".into()).await?;
/// question.finish()?; // The peer gets the end. `finished` waits until it has everything.
///
/// let mut answer = server.accept_stream().await?;
/// while let Some(message) = answer.recv().await? {
///     answer.send(message.data).await?;
/// }
/// answer.finish()?;
///
/// assert_eq!(question.recv().await?.ok_or("end")?.data, "first");
/// assert_eq!(question.recv().await?.ok_or("end")?.data, "second");
/// assert_eq!(question.recv().await?, None);
/// question.finished().await?;
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
        self.recv.id()
    }

    /// Receives the next message: see [`RecvStream::recv`].
    ///
    /// # Errors
    /// See [`RecvStream::recv`].
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub async fn recv(&mut self) -> Result<Option<Message>, RecvError> {
        self.recv.recv().await
    }

    /// Sends one message in the order of the stream: see [`SendStream::send`].
    ///
    /// # Errors
    /// See [`SendStream::send`].
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the message was not sent.
    pub async fn send(&mut self, data: Bytes) -> Result<(), SendError> {
        self.send.send(data).await
    }

    /// Sends one message with a lifetime, a context, or out of order: see [`SendStream::send_with`].
    ///
    /// # Errors
    /// See [`SendStream::send_with`].
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the message was not sent.
    pub async fn send_with(&mut self, data: Bytes, info: SendInfo) -> Result<(), SendError> {
        self.send.send_with(data, info).await
    }

    /// Finishes the sending direction of a dynamic stream: see [`SendStream::finish`].
    ///
    /// # Errors
    /// See [`SendStream::finish`].
    pub fn finish(&mut self) -> Result<(), SendError> {
        self.send.finish()
    }

    /// Waits until the peer has everything of the finished stream: see [`SendStream::finished`].
    ///
    /// # Errors
    /// See [`SendStream::finished`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn finished(&mut self) -> Result<(), FinishError> {
        self.send.finished().await
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
        Ended::NotEncrypted(_) => io::ErrorKind::PermissionDenied,
        Ended::Aborted | Ended::ProtocolViolation(_) | Ended::StackClosed => io::ErrorKind::ConnectionAborted,
    };
    io::Error::new(kind, ended)
}
