//! One-to-one associations.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use strandline_dtls::PeerIdentity;
use strandline_proto::config::AssociationConfig;
use strandline_proto::endpoint::Connect;
use strandline_proto::error::ReconfigureError;
use strandline_proto::event::{Message, SendInfo};
use strandline_proto::number::StreamId;
use strandline_proto::reconfiguration::{StreamDirection, Streams};
use strandline_proto::stats::{PathStatus, Status};

use crate::bind::Bind;
use crate::control::Control;
use crate::dynamic_streams::DynamicStreams;
use crate::error::{ConnectError, Ended, OpenStreamError, RecvError, SendError, TryRecvError, TrySendError};
use crate::events::Events;
use crate::handle::Handle;
use crate::id::AssociationId;
use crate::peer::Peer;
use crate::readiness::Readiness;
use crate::shard::attempt::Attempt;
use crate::shard::dynamic_streams::Key;
use crate::shard::one_to_one::RECV_MANY_MAX;
use crate::shard::passing::{try_in_turn, waits_for_reader};
use crate::shard::place::Place;
use crate::shard::state::State;
use crate::shard::streams::DynamicOf;
use crate::shard::table::is_dynamic;
use crate::stack::Stack;
use crate::stream::{RecvStream, SendStream, Stream};

/// An association with one peer, which sends and receives messages on its streams. Clones are handles to the
/// same association.
///
/// ```
/// use strandline::{Association, Listener, Peer, SendInfo, Stack, StreamId};
/// # use strandline::memory::Network;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
/// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
/// # let listener = Listener::bind(&there, 7)?;
/// # tokio::spawn(async move {
/// #     let Ok(peer) = listener.accept().await else { return };
/// #     while let Ok(Some(m)) = peer.recv().await {
/// #         if peer.send(&m.data, SendInfo::default()).await.is_err() { break }
/// #     }
/// # });
/// let association = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
/// association.send(b"hello", SendInfo::on(StreamId(3))).await?;
/// let echo = association.recv().await?.ok_or("the peer shut down")?;
/// assert_eq!(echo.data, "hello");
/// association.shutdown().await;
/// # Ok(()) }
/// ```
///
/// # Closing
///
/// Dropping the last handle (clones, streams and [`Events`] included) begins a graceful shutdown in the
/// background, as dropping a TCP socket does: data already sent is delivered, data that the peer still sends is
/// discarded. To know that everything was delivered, await [`shutdown`](Self::shutdown). To end the association
/// at once, call [`abort`](Self::abort).
///
/// SCTP has no half-closed associations (RFC 9260 section 9). After either side begins a shutdown, neither side
/// can send new messages, though both deliver what is queued. A protocol in which one side finishes first must
/// say so in its messages.
#[derive(Debug, Clone)]
pub struct Association {
    pub(crate) handle: Arc<Handle>,
}

impl Association {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle: Arc::new(handle) }
    }

    /// Sets up an association and waits until it is established.
    ///
    /// # Errors
    /// If the request is invalid, the peer refuses, or the peer doesn't answer. No answer is reported only
    /// after the INIT was retransmitted [`init_retrans_max`](AssociationConfig::init_retrans_max) times, which
    /// takes a while.
    ///
    /// # Cancel safety
    /// Dropping the future abandons the set-up.
    pub async fn connect(stack: &Stack, peer: impl Into<Peer>) -> Result<Self, ConnectError> {
        let association = Self::start(stack, peer, 0, None)?;
        association.established().await?;
        Ok(association)
    }

    /// Sets up an association with its own parameters, from the given local port (0 picks one), or from a port at
    /// some of the stack's addresses: only these are listed to the peer, and packets come from them.
    ///
    /// ```
    /// # use strandline::{Association, AssociationConfig, Bind, Listener, Peer, Stack};
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?, "10.1.0.1".parse()?])?;
    /// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
    /// # let listener = Listener::bind(&there, 7)?;
    /// let (peer, from) = (Peer::new([10, 0, 0, 2], 7), Bind::port(0).at([10, 1, 0, 1]));
    /// let config = AssociationConfig::default();
    /// let association = Association::connect_with(&here, peer, from, config).await?;
    /// # let accepted = listener.accept().await?;
    /// # let paths: Vec<_> = accepted.paths().iter().map(|path| path.address.ip().to_string()).collect();
    /// # assert_eq!(paths, ["10.1.0.1"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// Dropping the future abandons the set-up.
    pub async fn connect_with(
        stack: &Stack,
        peer: impl Into<Peer>,
        from: impl Into<Bind>,
        config: AssociationConfig,
    ) -> Result<Self, ConnectError> {
        let association = Self::start(stack, peer, from, Some(Arc::new(config)))?;
        association.established().await?;
        Ok(association)
    }

    /// Starts to set up an association and returns at once. Messages sent before it is established travel with
    /// the COOKIE ECHO, which saves a round trip: the answer to a request takes two, as over TCP. `from` is the
    /// local port, of which 0 picks one, and may have [addresses](Bind::at); `config` `None` uses the stack's
    /// parameters.
    ///
    /// ```
    /// use strandline::{Association, DynamicStreams, Listener, Peer, Stack};
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    /// # use std::time::Duration;
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::builder().delay(Duration::from_millis(30)).build();
    /// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
    /// # let listener = Listener::bind(&there, 7)?;
    /// # tokio::spawn(async move {
    /// #     let Ok(server) = listener.accept().await else { return };
    /// #     if server.set_dynamic_streams(DynamicStreams::default()).is_err() { return }
    /// #     let Ok(mut stream) = server.accept_stream().await else { return };
    /// #     let mut request = [0; 5];
    /// #     let _ = stream.read_exact(&mut request).await;
    /// #     let _ = stream.write_all(&request).await;
    /// #     let _ = server.closed().await;
    /// # });
    /// # let begun = tokio::time::Instant::now();
    /// let association = Association::start(&here, Peer::new([10, 0, 0, 2], 7), 0, None)?;
    /// association.set_dynamic_streams(DynamicStreams::default())?;
    /// let mut stream = association.open_stream().await?; // Waits for the INIT ACK.
    /// stream.write_all(b"what?").await?; // Travels with the COOKIE ECHO.
    /// let mut answer = [0; 5];
    /// stream.read_exact(&mut answer).await?;
    /// # assert_eq!(begun.elapsed(), 2 * Duration::from_millis(60));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the request is invalid or a limit was reached. Failure of the set-up itself is reported later, by
    /// [`established`](Self::established), `send` or `recv`.
    pub fn start(
        stack: &Stack,
        peer: impl Into<Peer>,
        from: impl Into<Bind>,
        config: Option<Arc<AssociationConfig>>,
    ) -> Result<Self, ConnectError> {
        let peer = peer.into();
        let remotes = stack.inner.remotes(&peer)?;
        let (local_port, local) = from.into().into_parts();
        let request = Connect { local_port, peer_port: peer.port(), remotes, local, config };
        let (shard, id) = stack.inner.connect(stack.preferred, request)?;
        Ok(Self::new(Handle::new(Arc::clone(&stack.inner), shard, id)))
    }

    /// Waits until the association is established.
    ///
    /// # Errors
    /// If the peer refuses or doesn't answer.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect on the association.
    pub async fn established(&self) -> Result<(), ConnectError> {
        let id = self.handle.id();
        Attempt::new(self.handle.shard(), Place::Change(id), |state, _| state.poll_established(id)).await
    }

    /// Copies and sends a message. Waits while the send buffer is full. Waiting messages are queued in the
    /// order of their calls, whatever their stream and size, so that no sender starves another.
    ///
    /// # Errors
    /// If the message can't be sent: see [`SendError`]. Success means that the message is queued; a later
    /// failure to deliver it is reported as a [`SendFailed`](crate::Notification::SendFailed) notification.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the message was not sent.
    pub async fn send(&self, data: &[u8], info: SendInfo) -> Result<(), SendError> {
        let id = self.handle.id();
        let attempt = |state: &mut State, now| state.poll_send_slice(now, id, info, data);
        let at_once = |state: &mut State, now| state.in_turn(id, info.stream, |state| attempt(state, now));
        if let Some(result) = self.handle.shard().with_message(data.len(), at_once) {
            return result;
        }
        Attempt::new(self.handle.shard(), Place::Write(id, info.stream), attempt).await
    }

    /// Sends a message without copying it. Waits while the send buffer is full.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the message was not sent.
    pub async fn send_bytes(&self, mut data: Bytes, info: SendInfo) -> Result<(), SendError> {
        let len = data.len();
        let id = self.handle.id();
        let mut attempt = |state: &mut State, now| state.poll_send(now, id, info, &mut data);
        let at_once = |state: &mut State, now| state.in_turn(id, info.stream, |state| attempt(state, now));
        if let Some(result) = self.handle.shard().with_message(len, at_once) {
            return result;
        }
        Attempt::new(self.handle.shard(), Place::Write(id, info.stream), attempt).await
    }

    /// Sends a message without copying it, or returns at once if the send buffer is full or other messages wait
    /// for room in it. A stream with nothing queued may have room of its own
    /// ([`StreamScheduler`](crate::StreamScheduler)), and need not wait then.
    ///
    /// # Errors
    /// [`TrySendError::Full`] if the call would have to wait, otherwise the reason why the message can't be
    /// sent.
    pub fn try_send_bytes(&self, mut data: Bytes, info: SendInfo) -> Result<(), TrySendError> {
        let id = self.handle.id();
        let message = (info.stream, data.len());
        let mut attempt = |state: &mut State, now| state.poll_send(now, id, info, &mut data);
        match self
            .handle
            .shard()
            .with(|state, now| try_in_turn(state, id, message, |state| attempt(state, now)))
        {
            Poll::Ready(result) => Ok(result?),
            Poll::Pending => Err(TrySendError::Full),
        }
    }

    /// Copies and sends a message, or returns at once if the send buffer is full or other messages wait for room
    /// in it.
    ///
    /// # Errors
    /// See [`try_send_bytes`](Self::try_send_bytes).
    pub fn try_send(&self, data: &[u8], info: SendInfo) -> Result<(), TrySendError> {
        let id = self.handle.id();
        let attempt = |state: &mut State, now| state.poll_send_slice(now, id, info, data);
        match self
            .handle
            .shard()
            .with(|state, now| try_in_turn(state, id, (info.stream, data.len()), |state| attempt(state, now)))
        {
            Poll::Ready(result) => Ok(result?),
            Poll::Pending => Err(TrySendError::Full),
        }
    }

    /// Receives the next message of any stream that has no reader of its own. Returns `None` once the peer has
    /// shut down and every message was read. A message too large for the receive buffer arrives in parts: see
    /// [`ends`](Message::ends).
    ///
    /// # Errors
    /// If the association ended in any way other than a shutdown. [`RecvError::Restarted`] once if the peer
    /// restarted and a message of which parts were returned will not be completed. [`RecvError::Abandoned`]
    /// once for each message of which parts were returned and that the peer gave up.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub async fn recv(&self) -> Result<Option<Message>, RecvError> {
        let id = self.handle.id();
        let attempt = |state: &mut State, now| state.poll_recv(now, id, None);
        Attempt::new(self.handle.shard(), Place::Read(id), attempt).await
    }

    /// Receives as [`recv`](Self::recv) does, or returns at once if no message has arrived.
    ///
    /// ```
    /// use strandline::{Association, Listener, Peer, SendInfo, Stack, TryRecvError};
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
    /// # let listener = Listener::bind(&there, 7)?;
    /// let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    /// let server = listener.accept().await?;
    /// assert_eq!(server.try_recv(), Err(TryRecvError::Empty));
    /// client.send(b"hello", SendInfo::default()).await?;
    /// server.readiness().readable().await;
    /// assert_eq!(server.try_recv()?.ok_or("end")?.data, "hello");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if the call would have to wait, otherwise the errors of [`recv`](Self::recv).
    pub fn try_recv(&self) -> Result<Option<Message>, TryRecvError> {
        let id = self.handle.id();
        match self.handle.shard().with(|state, now| state.poll_recv(now, id, None)) {
            Poll::Ready(result) => Ok(result?),
            Poll::Pending => Err(TryRecvError::Empty),
        }
    }

    /// Returns an object that waits until messages can be received or sent, without doing either. It is also a
    /// handle to the association.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        Readiness::of_association(Arc::clone(&self.handle), None)
    }

    /// As [`readiness`](Self::readiness), but [`writable`](Readiness::writable) concerns messages on one
    /// stream, which may wait for its reader while others don't ([`StreamCredit`](crate::StreamCredit)).
    #[must_use]
    pub fn readiness_on(&self, stream: StreamId) -> Readiness {
        Readiness::of_association(Arc::clone(&self.handle), Some(stream))
    }

    /// Appends the messages that have arrived to `messages`, at most `limit` and at most 1,024 of them. This is
    /// cheaper than receiving small messages one by one. Waits for the first message and returns how many were
    /// appended: 0 once the peer has shut down and every message was read, or if `limit` is 0.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv), once every message that had arrived was read.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub async fn recv_many(&self, messages: &mut Vec<Message>, limit: usize) -> Result<usize, RecvError> {
        let (id, limit) = (self.handle.id(), limit.min(RECV_MANY_MAX));
        let attempt = |state: &mut State, now| state.poll_recv_batch(now, id, messages, limit);
        Attempt::new(self.handle.shard(), Place::Read(id), attempt).await
    }

    /// Opens a stream as a byte stream in both directions: see [`Stream`].
    ///
    /// # Errors
    /// If the stream doesn't exist or already has a reader.
    pub fn open(&self, stream: StreamId) -> Result<Stream, OpenStreamError> {
        Ok(Stream::new(self.open_recv(stream)?, self.open_send(stream)?))
    }

    /// Opens the incoming direction of a stream with a reader of its own. From then on [`recv`](Self::recv)
    /// doesn't return the stream's messages.
    ///
    /// # Errors
    /// If the stream doesn't exist or already has a reader.
    pub fn open_recv(&self, stream: StreamId) -> Result<RecvStream, OpenStreamError> {
        let id = self.handle.id();
        let next = self.handle.shard().with(|state, now| state.claim(now, id, stream))?;
        Ok(RecvStream::new(Arc::clone(&self.handle), stream, next))
    }

    /// Opens the outgoing direction of a stream.
    ///
    /// # Errors
    /// If the stream doesn't exist, or is a dynamic one.
    pub fn open_send(&self, stream: StreamId) -> Result<SendStream, OpenStreamError> {
        let status = self.status().ok_or(OpenStreamError::Ended)?;
        let streams = status.outbound_streams;
        if stream.0 >= streams {
            return Err(OpenStreamError::NoSuchStream { stream: stream.0, streams });
        }
        let id = self.handle.id();
        if self.handle.shard().with(|state, _| is_dynamic(&state.table, id, stream)) {
            return Err(OpenStreamError::Dynamic(stream.0));
        }
        Ok(SendStream::new(Arc::clone(&self.handle), stream))
    }

    /// Makes streams dynamic, for as long as the association exists: [`open_stream`](Self::open_stream) and
    /// [`accept_stream`](Self::accept_stream) open them. Both sides must do so before the first stream is
    /// opened, with the same [`first`](DynamicStreams::first). [`recv`](Self::recv) does not return messages
    /// of these streams, and [`send`](Self::send) refuses those on them ([`SendError::Dynamic`]).
    ///
    /// The peer may close dynamic streams whatever [`PeerRequests`](crate::PeerRequests) permits.
    ///
    /// # Errors
    /// If it was done before, one of the streams has a reader already, or the association has ended.
    pub fn set_dynamic_streams(&self, streams: DynamicStreams) -> Result<(), OpenStreamError> {
        let id = self.handle.id();
        self.handle.shard().with(|state, now| DynamicOf::of(state).begin_dynamic(now, id, streams))
    }

    /// Opens a stream for both directions. The peer is not asked, so that data can be sent at once. It
    /// [accepts](Self::accept_stream) the stream when the first message arrives, or the end if there is none.
    ///
    /// Its number is used again once both directions are closed. If none is free, the peer is asked for more
    /// streams, and the call waits, in the order of the calls, until some are added or a stream is closed.
    ///
    /// During the set-up it waits for the INIT ACK only: what is sent then travels with the COOKIE ECHO, as after
    /// [`start`](Self::start).
    ///
    /// ```
    /// use strandline::{Association, DynamicStreams, Listener, Peer, Stack};
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
    /// for association in [&client, &server] {
    ///     association.set_dynamic_streams(DynamicStreams::default())?;
    /// }
    /// tokio::spawn(async move {
    ///     while let Ok(mut stream) = server.accept_stream().await {
    ///         let mut request = String::new();
    ///         if stream.read_to_string(&mut request).await.is_ok() {
    ///             let _ = stream.write_all(request.to_uppercase().as_bytes()).await;
    ///             let _ = stream.shutdown().await; // Finishes it.
    ///         }
    ///     }
    /// });
    ///
    /// for _ in 0..3 {
    ///     let (mut answers, mut requests) = client.open_stream().await?.into_split();
    ///     requests.write_all(b"what?").await?;
    ///     requests.finish()?;
    ///     let mut answer = String::new();
    ///     answers.read_to_string(&mut answer).await?;
    ///     assert_eq!(answer, "WHAT?");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If [`set_dynamic_streams`](Self::set_dynamic_streams) was not called, the peer does not support the
    /// reconfiguration of streams ([`Status::extensions`]), or the association is shutting down or has ended: why
    /// a set-up failed is returned by [`established`](Self::established). Readers and writers of streams that were
    /// opened during a set-up that fails get the reason, too.
    ///
    /// # Cancel safety
    /// Dropping the future opens no stream.
    pub async fn open_stream(&self) -> Result<Stream, OpenStreamError> {
        let id = self.handle.id();
        let run = |state: &mut State, now| DynamicOf::of(state).poll_open_stream(now, id);
        let key = Attempt::new(self.handle.shard(), Place::OpenStream(id), run).await?;
        Ok(self.dynamic(key))
    }

    /// Accepts the next stream that the peer has opened. Call it often: beyond
    /// [`backlog`](DynamicStreams::backlog) streams are refused.
    ///
    /// # Errors
    /// Those of [`open_stream`](Self::open_stream). Streams that arrived before the end are accepted first.
    ///
    /// # Cancel safety
    /// Dropping the future loses no stream.
    pub async fn accept_stream(&self) -> Result<Stream, OpenStreamError> {
        let id = self.handle.id();
        let run = |state: &mut State, _| DynamicOf::of(state).poll_accept_stream(id);
        let key = Attempt::new(self.handle.shard(), Place::AcceptStream(id), run).await?;
        Ok(self.dynamic(key))
    }

    fn dynamic(&self, key: Key) -> Stream {
        let recv = RecvStream::dynamic(Arc::clone(&self.handle), key);
        Stream::new(recv, SendStream::dynamic(Arc::clone(&self.handle), key))
    }

    /// Subscribes to the association's notifications from now on. All returned handles share one queue: each
    /// notification is delivered once.
    #[must_use]
    pub fn events(&self) -> Events {
        let id = self.handle.id();
        self.handle.shard().with(|state, _| state.subscribe(id));
        Events::new(Arc::clone(&self.handle))
    }

    /// Asks for a reset of streams: see [`Control::reset_streams`].
    ///
    /// # Errors
    /// See [`Control::reset_streams`].
    pub fn reset_streams(
        &self,
        direction: StreamDirection,
        streams: impl Into<Streams>,
    ) -> Result<(), ReconfigureError> {
        self.control().reset_streams(direction, streams)
    }

    /// Asks for a reset of all sequence numbers: see [`Control::reset_association`].
    ///
    /// # Errors
    /// See [`Control::reset_association`].
    pub fn reset_association(&self) -> Result<(), ReconfigureError> {
        self.control().reset_association()
    }

    /// Asks for more streams: see [`Control::add_streams`].
    ///
    /// # Errors
    /// See [`Control::add_streams`].
    pub fn add_streams(&self, outgoing: u16, incoming: u16) -> Result<(), ReconfigureError> {
        self.control().add_streams(outgoing, incoming)
    }

    /// Shuts the association down gracefully and waits until it has ended: queued messages of both sides are
    /// delivered first. Messages that the peer still sends can be received meanwhile, from another task or a
    /// clone, and afterwards.
    ///
    /// # Cancel safety
    /// The shutdown begins with the first poll and continues if the future is dropped.
    pub async fn shutdown(&self) -> Ended {
        self.control().start_shutdown();
        self.closed().await
    }

    /// Waits until the association has ended, and returns how it ended.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect on the association.
    pub async fn closed(&self) -> Ended {
        let id = self.handle.id();
        Attempt::new(self.handle.shard(), Place::Change(id), |state, _| state.poll_closed(id)).await
    }

    /// Returns true while a message waits for room on its stream, which only the stream's reader makes
    /// (stream credit): the send buffer may have room for others.
    #[must_use]
    pub fn waits_for_reader(&self, stream: StreamId) -> bool {
        waits_for_reader(&self.handle.shard().look(), self.handle.id(), stream)
    }

    /// Aborts the association at once. The ABORT carries up to 512 bytes of `reason`; undelivered messages are
    /// lost.
    pub fn abort(&self, reason: impl Into<Bytes>) {
        self.control().abort(reason);
    }

    /// Returns the association's identifier.
    #[must_use]
    pub fn id(&self) -> AssociationId {
        self.handle.id
    }

    /// Returns the state, ports, streams, windows and counters.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.control().status()
    }

    /// Returns the state, congestion window, round-trip time and MTU of the path to each of the peer's
    /// addresses.
    #[must_use]
    pub fn paths(&self) -> Vec<PathStatus> {
        self.control().paths()
    }

    /// Returns who the peer has proved to be, on a stack with [encryption](crate::encryption). `None` if the peer is an
    /// anonymous client, packets are not encrypted, or the association is gone.
    #[must_use]
    pub fn peer_identity(&self) -> Option<PeerIdentity> {
        self.control().peer_identity()
    }

    /// Returns the view with the other settings and statistics of the association.
    #[must_use]
    pub fn control(&self) -> Control<'_> {
        Control::new(self.handle.shard(), self.handle.id)
    }
}
