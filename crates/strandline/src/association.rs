//! One association of a one-to-one socket.

use std::sync::Arc;

use bytes::Bytes;
use strandline_proto::config::AssociationConfig;
use strandline_proto::event::{Message, SendInfo};
use strandline_proto::number::StreamId;
use strandline_proto::stats::{PathStatus, Status};

use crate::control::Control;
use crate::error::{ConnectError, Ended, OpenStreamError, RecvError, SendError, TrySendError};
use crate::events::Events;
use crate::handle::Handle;
use crate::id::AssociationId;
use crate::peer::Peer;
use crate::shard::attempt::Attempt;
use crate::shard::held::RECV_MANY_MAX;
use crate::shard::place::Place;
use crate::shard::state::State;
use crate::stack::Stack;
use crate::stream::{RecvStream, SendStream, Stream};

/// An association with one peer, to send and receive messages on its streams. Clones are the same association.
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
/// Dropping the last handle (clones, streams and [`Events`] included) begins a graceful shutdown in the background, as dropping a
/// TCP socket does: what was sent is delivered, what the peer still sends is thrown away. To know that all was
/// delivered, await [`shutdown`](Self::shutdown). To end at once, call [`abort`](Self::abort).
///
/// SCTP has no half-closed associations (RFC 9260 section 9): after a shutdown by either side no side can send
/// anything new, though both deliver what they have queued. Protocols that let one side finish first must say so in
/// their messages.
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
    /// If the request makes no sense, the peer refuses or doesn't answer (that takes a while: the set-up is tried
    /// [`init_retrans_max`](AssociationConfig::init_retrans_max) more times).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the set-up.
    pub async fn connect(stack: &Stack, peer: impl Into<Peer>) -> Result<Self, ConnectError> {
        let association = Self::start(stack, peer, 0, None)?;
        association.established().await?;
        Ok(association)
    }

    /// Sets up an association with parameters of its own, from a certain local port (0 picks one).
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the set-up.
    pub async fn connect_with(
        stack: &Stack,
        peer: impl Into<Peer>,
        local_port: u16,
        config: AssociationConfig,
    ) -> Result<Self, ConnectError> {
        let association = Self::start(stack, peer, local_port, Some(Arc::new(config)))?;
        association.established().await?;
        Ok(association)
    }

    /// Starts to set up an association and returns at once. What is sent before it is established goes along with the
    /// COOKIE ECHO, which saves a round trip. `local_port` 0 picks one; `config` `None` takes the stack's.
    ///
    /// # Errors
    /// If the request makes no sense or a limit was reached. Whether the peer answers shows later, in
    /// [`established`](Self::established), `send` or `recv`.
    pub fn start(
        stack: &Stack,
        peer: impl Into<Peer>,
        local_port: u16,
        config: Option<Arc<AssociationConfig>>,
    ) -> Result<Self, ConnectError> {
        let peer = peer.into();
        let remotes = stack.inner.remotes(&peer)?;
        let request = State::request(peer.port(), local_port, remotes, config);
        let (shard, id) = stack.inner.connect(stack.preferred, request)?;
        Ok(Self::new(Handle::new(Arc::clone(&stack.inner), shard, id)))
    }

    /// Waits until the association is established.
    ///
    /// # Errors
    /// If the peer refuses or doesn't answer.
    ///
    /// # Cancel safety
    /// It only waits; it can be dropped at any time.
    pub async fn established(&self) -> Result<(), ConnectError> {
        let id = self.handle.id();
        Attempt::new(self.handle.shard(), Place::Change(id), |state, _| state.poll_established(id)).await
    }

    /// Sends a message, copying it. Waits while the send buffer is full. Messages that wait are taken in the order in which they
    /// were given, whatever their stream and size, so that no sender keeps out another one.
    ///
    /// # Errors
    /// If the message can't be sent: see [`SendError`]. Success means that it is queued; a failure to deliver it later
    /// is a [`SendFailed`](crate::Notification::SendFailed) notification.
    ///
    /// # Cancel safety
    /// If the future is dropped before it returned, the message was not sent.
    pub async fn send(&self, data: &[u8], info: SendInfo) -> Result<(), SendError> {
        let id = self.handle.id();
        let attempt = |state: &mut State, now| state.poll_send_slice(now, id, info, data);
        let at_once = |state: &mut State, now| state.in_turn(id, |state| attempt(state, now));
        if let Some(result) = self.handle.shard().with_message(data.len(), at_once) {
            return result;
        }
        Attempt::new(self.handle.shard(), Place::Write(id), attempt).await
    }

    /// Sends a message without copying it. Waits while the send buffer is full.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Cancel safety
    /// If the future is dropped before it returned, the message was not sent.
    pub async fn send_bytes(&self, mut data: Bytes, info: SendInfo) -> Result<(), SendError> {
        let len = data.len();
        let id = self.handle.id();
        let mut attempt = |state: &mut State, now| state.poll_send(now, id, info, &mut data);
        let at_once = |state: &mut State, now| state.in_turn(id, |state| attempt(state, now));
        if let Some(result) = self.handle.shard().with_message(len, at_once) {
            return result;
        }
        Attempt::new(self.handle.shard(), Place::Write(id), attempt).await
    }

    /// Sends a message without copying it, or says that the send buffer is full or other messages wait for room there.
    ///
    /// # Errors
    /// [`TrySendError::Full`], or why it can't be sent.
    pub fn try_send_bytes(&self, mut data: Bytes, info: SendInfo) -> Result<(), TrySendError> {
        let id = self.handle.id();
        let mut attempt = |state: &mut State, now| state.poll_send(now, id, info, &mut data);
        match self.handle.shard().with(|state, now| state.in_turn(id, |state| attempt(state, now))) {
            std::task::Poll::Ready(result) => Ok(result?),
            std::task::Poll::Pending => Err(TrySendError::Full),
        }
    }

    /// The next message, of whichever stream has no reader of its own. `None` once the peer has shut down and all was
    /// read. Messages that are too large for the receive buffer come in parts: look at
    /// [`ends`](Message::ends).
    ///
    /// # Errors
    /// If the association ended in another way than by shutdown.
    ///
    /// # Cancel safety
    /// No message is lost if the future is dropped.
    pub async fn recv(&self) -> Result<Option<Message>, RecvError> {
        let id = self.handle.id();
        let attempt = |state: &mut State, now| state.poll_recv(now, id, None);
        Attempt::new(self.handle.shard(), Place::Read(id), attempt).await
    }

    /// The next messages, up to `limit` of them (and 1,024) as far as they have arrived, at the end of `messages`: cheaper than one
    /// by one if they are small. Waits for the first, and returns how many there are: 0 once the peer has shut down and
    /// all was read (or if `limit` is 0).
    ///
    /// # Errors
    /// As [`recv`](Self::recv), once all that had arrived was read.
    ///
    /// # Cancel safety
    /// No message is lost if the future is dropped.
    pub async fn recv_many(&self, messages: &mut Vec<Message>, limit: usize) -> Result<usize, RecvError> {
        let (id, limit) = (self.handle.id(), limit.min(RECV_MANY_MAX));
        let attempt = |state: &mut State, now| state.poll_recv_batch(now, id, messages, limit);
        Attempt::new(self.handle.shard(), Place::Read(id), attempt).await
    }

    /// A stream as a byte stream in both directions: see [`Stream`].
    ///
    /// # Errors
    /// If the stream doesn't exist or has a reader already.
    pub fn open(&self, stream: StreamId) -> Result<Stream, OpenStreamError> {
        Ok(Stream::new(self.open_recv(stream)?, self.open_send(stream)?))
    }

    /// The incoming direction of a stream, with a reader of its own: its messages no longer come from
    /// [`recv`](Self::recv).
    ///
    /// # Errors
    /// If the stream doesn't exist or has a reader already.
    pub fn open_recv(&self, stream: StreamId) -> Result<RecvStream, OpenStreamError> {
        let id = self.handle.id();
        self.handle.shard().with(|state, now| state.claim(now, id, stream))?;
        Ok(RecvStream::new(Arc::clone(&self.handle), stream))
    }

    /// The outgoing direction of a stream.
    ///
    /// # Errors
    /// If the stream doesn't exist.
    pub fn open_send(&self, stream: StreamId) -> Result<SendStream, OpenStreamError> {
        let status = self.status().ok_or(OpenStreamError::Ended)?;
        let streams = status.outbound_streams;
        if stream.0 >= streams {
            return Err(OpenStreamError::NoSuchStream { stream: stream.0, streams });
        }
        Ok(SendStream::new(Arc::clone(&self.handle), stream))
    }

    /// Notifications from now on. All handles that this returns share one queue: each notification is seen once.
    #[must_use]
    pub fn events(&self) -> Events {
        let id = self.handle.id();
        self.handle.shard().with(|state, _| state.subscribe(id));
        Events::new(Arc::clone(&self.handle))
    }

    /// Ends the association gracefully: what is queued on both sides is delivered first. Waits until it is over. What
    /// the peer still sends can be received meanwhile, from another task or a clone, and afterwards.
    ///
    /// # Cancel safety
    /// The shutdown begins with the first poll and goes on if the future is dropped.
    pub async fn shutdown(&self) -> Ended {
        self.control().start_shutdown();
        self.closed().await
    }

    /// Waits until the association has ended, and says how.
    ///
    /// # Cancel safety
    /// It only waits; it can be dropped at any time.
    pub async fn closed(&self) -> Ended {
        let id = self.handle.id();
        Attempt::new(self.handle.shard(), Place::Change(id), |state, _| state.poll_closed(id)).await
    }

    /// Ends the association at once. The peer is told up to 512 bytes of `reason`; what was not delivered is lost.
    pub fn abort(&self, reason: impl Into<Bytes>) {
        self.control().abort(reason);
    }

    /// The association's name.
    #[must_use]
    pub fn id(&self) -> AssociationId {
        self.handle.id
    }

    /// State, ports, streams, windows and counters.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.control().status()
    }

    /// Each of the peer's addresses with its state, window, round trip time and MTU.
    #[must_use]
    pub fn paths(&self) -> Vec<PathStatus> {
        self.control().paths()
    }

    /// Everything else that can be seen and set.
    #[must_use]
    pub fn control(&self) -> Control<'_> {
        Control::new(self.handle.shard(), self.handle.id)
    }
}
