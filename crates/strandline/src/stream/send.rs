//! The outgoing direction of a stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use strandline_proto::endpoint::StreamValue;
use strandline_proto::error::StreamValueError;
use strandline_proto::event::SendInfo;
use strandline_proto::number::{Ppid, StreamId};
use strandline_proto::reliability::Reliability;
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
/// What is written through [`AsyncWrite`] is sent reliably, whatever
/// [`default_reliability`](crate::ExtensionsConfig::default_reliability) says.
///
/// Dropping that of a dynamic stream [resets](Self::reset) it, unless it was [finished](Self::finish): what
/// its task could not complete never looks complete to the peer.
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

    /// Sets the stream's parameter for the scheduler, as
    /// [`Control::set_stream_value`](crate::Control::set_stream_value) does: its priority
    /// ([`StreamScheduler::Priority`](crate::StreamScheduler::Priority)) or its weight
    /// ([`StreamScheduler::WeightedFairQueueing`](crate::StreamScheduler::WeightedFairQueueing)). Each use of
    /// the number of a dynamic stream begins with 0.
    ///
    /// ```
    /// use strandline::{Association, DynamicStreams, Listener, Peer, Stack, StreamScheduler};
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
    /// # let listener = Listener::bind(&there, 7)?;
    /// # let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    /// # let server = listener.accept().await?;
    /// # client.set_dynamic_streams(DynamicStreams::default())?;
    /// client.control().set_stream_scheduler(StreamScheduler::Priority);
    /// let (_, mut bulk) = client.open_stream().await?.into_split();
    /// bulk.set_scheduler_value(10)?; // The others have 0, which is the highest priority.
    /// bulk.send(vec![0; 100_000].into()).await?;
    /// assert_eq!(client.control().stream_value(bulk.id())?, 10);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the association has ended, or a dynamic stream is finished, stopped or lost: see [`SendError`].
    pub fn set_scheduler_value(&mut self, value: u16) -> Result<(), SendError> {
        let (id, stream, dynamic) = (self.handle.id(), self.stream, self.dynamic);
        self.handle.shard().with(|state, _| {
            dynamic.map_or(Ok(()), |key| DynamicOf::of(state).check_sending(id, key))?;
            let set = StreamValue { stream, value }.set(&mut state.engine, id);
            set.map_err(|error| match error {
                StreamValueError::InvalidStream { stream, streams } => {
                    SendError::InvalidStream { stream, streams }
                }
                _ => SendError::ShuttingDown,
            })
        })
    }

    /// The queue in which [`AsyncWrite`] waits.
    fn place(&self) -> Place {
        Place::WritePolled(self.handle.id(), Some(self.stream))
    }

    /// Finishes a dynamic stream: the peer's reader gets the end once it has everything that was sent before.
    /// Nothing more can be sent. Returns at once; [`finished`](Self::finished) waits. A second call has no
    /// effect.
    ///
    /// # Errors
    /// [`SendError::Stopped`] if the peer reads no more, [`SendError::Lost`], or if the association has ended.
    /// [`SendError::NotDynamic`] for a stream with a fixed number.
    pub fn finish(&mut self) -> Result<(), SendError> {
        let key = self.dynamic.ok_or(SendError::NotDynamic)?;
        let id = self.handle.id();
        self.handle.shard().with(|state, now| DynamicOf::of(state).finish(now, id, key))
    }

    /// Waits until the peer has everything of a stream that was [finished](Self::finish), and both sides
    /// count it as closed. Before it is finished, it waits for that, too, or until the peer asks to stop.
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
    /// If the peer does not support partial reliability ([`Status`](crate::Status)), it can't be told: its
    /// reader waits until the association ends, and the number of the stream is not used again.
    pub fn reset(self) {}

    fn info(&self) -> SendInfo {
        SendInfo::on(self.stream).ppid(self.ppid)
    }

    /// Sends one message in the order of the stream. Waits while the send buffer is full. Messages of one
    /// stream are sent in the order of the calls.
    ///
    /// # Errors
    /// If the message can't be sent: see [`SendError`].
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the message was not sent.
    pub async fn send(&mut self, data: Bytes) -> Result<(), SendError> {
        self.send_with(data, self.info()).await
    }

    /// Sends one message with a lifetime, a context, or out of order. [`SendInfo::stream`] is replaced by
    /// this stream; the payload protocol identifier is that of `info`, not the one of
    /// [`set_ppid`](Self::set_ppid). Otherwise it is as [`send`](Self::send).
    ///
    /// A message that is given up is reported as [`SendFailed`](crate::Notification::SendFailed) with its
    /// context. The peer's reader gets [`RecvError::Abandoned`](crate::RecvError::Abandoned) in its place, if
    /// it was in order, and goes on. The end of a dynamic stream is clean behind it, unless the last message
    /// was given up: the peer can't tell this from a [reset](Self::reset), and its reader gets
    /// [`RecvError::Unfinished`](crate::RecvError::Unfinished).
    ///
    /// ```
    /// use core::time::Duration;
    /// use strandline::{Association, DynamicStreams, Listener, Peer, Ppid, Reliability, SendInfo, Stack};
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
    /// let (_, mut samples) = client.open_stream().await?.into_split();
    /// // Worth nothing after a second, each by itself.
    /// let sample = SendInfo::default().reliability(Reliability::lifetime(Duration::from_secs(1))).unordered();
    /// for number in 0..3_u32 {
    ///     let data = number.to_be_bytes().to_vec();
    ///     samples.send_with(data.into(), sample.context(number).ppid(Ppid(number))).await?;
    /// }
    /// samples.finish()?;
    ///
    /// let (mut arriving, _) = server.accept_stream().await?.into_split();
    /// while let Some(message) = arriving.recv().await? {
    ///     assert!(message.unordered && message.data.ends_with(&[message.ppid.0 as u8]));
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the message can't be sent: see [`SendError`].
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the message was not sent.
    pub async fn send_with(&mut self, mut data: Bytes, mut info: SendInfo) -> Result<(), SendError> {
        let (id, dynamic) = (self.handle.id(), self.dynamic);
        info.stream = self.stream;
        let len = data.len();
        let run = |state: &mut State, now| match dynamic {
            None => state.poll_send(now, id, info, &mut data),
            Some(key) => DynamicOf::of(state)
                .poll_send_dynamic(now, id, key, len, |engine| engine.send_from(now, id, info, &mut data)),
        };
        let place = Place::Write(id, info.stream);
        // Streams that wait for room don't hold up one that has room of its own. Of a dynamic stream there is
        // one writer.
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
        // Bytes that are missing in the middle would be of no use.
        let (id, info) = (this.handle.id(), this.info().reliability(Reliability::FULL));
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

    /// [Finishes](SendStream::finish) a dynamic stream. For others it ends writing with this handle, and the
    /// peer doesn't notice.
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
