//! Waiting for sockets to be ready, also from event loops other than tokio's.

use std::sync::Arc;
use std::task::{Context, Poll};

use strandline_proto::event::AssociationId as EngineId;
use strandline_proto::number::StreamId;

use crate::bound::Bound;
use crate::handle::Handle;
use crate::shard::attempt::{self, forget};
use crate::shard::core::Shard;
use crate::shard::place::Place;
use crate::shard::readable::{
    Has, poll_acceptable, poll_notified, poll_notified_many, poll_readable, poll_readable_many, poll_writable,
};
use crate::shard::state::State;
use crate::wait::Token;

/// Waits until an [`Association`](crate::Association), an [`Endpoint`](crate::Endpoint) or a
/// [`Listener`](crate::Listener) is ready, without receiving, sending or accepting: what `poll` is for sockets of
/// the kernel. It reports a state, not a change: while a message is waiting, every call returns at once.
///
/// The poll functions can be called from any thread, without tokio. A foreign event loop passes a waker that
/// makes the loop call again, such as one that writes to a descriptor that the loop watches:
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
/// use std::sync::Arc;
/// use std::task::{Context, Wake, Waker};
/// use strandline::{Association, Listener, Peer, SendInfo, Stack};
///
/// /// Makes the descriptor at the other end readable.
/// struct Bell(UnixStream);
///
/// impl Wake for Bell {
///     fn wake(self: Arc<Self>) {
///         let _ = (&self.0).write(b"!"); // If the socket is full, the loop is awake anyway.
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The stacks run on a runtime of their own.
/// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
/// let _entered = runtime.enter();
/// let here = Stack::builder().udp("127.0.0.1:0".parse()?)?;
/// let there = Stack::builder().udp("127.0.0.1:0".parse()?)?;
/// let port = there.local_addr().ok_or("no address")?.port();
/// let listener = Listener::bind(&there, 7)?;
/// let client = Association::start(&here, Peer::new([127, 0, 0, 1], 7).encapsulation_port(port), 0, None)?;
///
/// // This thread waits for a descriptor, as an event loop does.
/// let (bell, mut rings) = UnixStream::pair()?;
/// let waker = Waker::from(Arc::new(Bell(bell)));
/// let mut context = Context::from_waker(&waker);
/// let mut acceptable = listener.readiness();
/// while acceptable.poll_readable(&mut context).is_pending() {
///     rings.read(&mut [0])?; // instead: poll, epoll, kqueue
/// }
/// let server = listener.try_accept()?;
/// server.try_send(b"hello", SendInfo::default())?;
/// let mut readable = client.readiness();
/// while readable.poll_readable(&mut context).is_pending() {
///     rings.read(&mut [0])?;
/// }
/// assert_eq!(client.try_recv()?.ok_or("end")?.data, "hello");
/// # Ok(()) }
/// ```
///
/// Each object keeps the waker of its latest poll call in each direction. Use one for each task or loop that
/// waits.
#[derive(Debug)]
pub struct Readiness {
    source: Source,
    /// Where the reader waits: on each shard of the socket, or on that of the association.
    read: Vec<Token>,
    notified: Vec<Token>,
    write: Token,
}

#[derive(Debug)]
enum Source {
    /// The stream is the one that messages are sent on, if that matters.
    Association(Arc<Handle>, Option<StreamId>),
    Endpoint(Arc<Bound>),
    Listener(Arc<Bound>),
}

impl Readiness {
    pub(crate) fn of_association(handle: Arc<Handle>, stream: Option<StreamId>) -> Self {
        let source = Source::Association(handle, stream);
        Self { source, read: vec![None], notified: vec![None], write: None }
    }

    pub(crate) fn of_endpoint(bound: Arc<Bound>) -> Self {
        let read = vec![None; bound.stack.shards.len()];
        Self { source: Source::Endpoint(bound), notified: read.clone(), read, write: None }
    }

    pub(crate) fn of_listener(bound: Arc<Bound>) -> Self {
        let read = vec![None; bound.stack.shards.len()];
        Self { source: Source::Listener(bound), read, notified: Vec::new(), write: None }
    }

    /// Waits until `try_recv`, `try_recv_from` or `try_accept` would return something other than `Empty`: a
    /// message, an association, the end or an error.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn readable(&mut self) {
        std::future::poll_fn(|cx| self.poll_readable(cx)).await;
    }

    /// Waits until `try_send` would take a short message, or the one that it refused last as `Full`, or fail with
    /// another error. Whether a stream waits for its reader is known to
    /// [`readiness_on`](crate::Association::readiness_on) alone.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn writable(&mut self) {
        std::future::poll_fn(|cx| self.poll_writable(cx)).await;
    }

    /// Polls [`readable`](Self::readable). While it is pending, the waker is woken once it may be ready.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { source, read, .. } = self;
        match source {
            Source::Association(handle, _) => {
                let id = handle.id();
                let Some(token) = read.first_mut() else { return Poll::Ready(()) };
                attempt::poll(handle.shard(), Place::Read(id), token, cx, |state, _| poll_readable(state, id))
            }
            Source::Endpoint(bound) => poll_any(bound, Place::WatchMany, read, cx, poll_readable_many),
            Source::Listener(bound) => poll_any(bound, Place::WatchAccept, read, cx, poll_acceptable),
        }
    }

    /// Polls [`writable`](Self::writable). While it is pending, the waker is woken once it may be ready. While
    /// it waits for room, it has a turn among the association's senders, so poll again once woken, or drop it.
    ///
    /// Endpoints and listeners are always ready: whether a message can be sent depends on its association.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Source::Association(handle, stream) = &self.source else { return Poll::Ready(()) };
        let (id, stream) = (handle.id(), *stream);
        let place = Place::WritePolled(id, stream);
        attempt::poll(handle.shard(), place, &mut self.write, cx, |state, _| poll_writable(state, id, stream))
    }

    /// Waits until a notification can be taken with `try_next`, or none will come. Returns at once if nobody
    /// [subscribed](crate::Association::events).
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn notified(&mut self) {
        std::future::poll_fn(|cx| self.poll_notified(cx)).await;
    }

    /// Polls [`notified`](Self::notified). Listeners have no notifications, and are always ready.
    pub fn poll_notified(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { source, notified, .. } = self;
        match source {
            Source::Association(handle, _) => {
                let id = handle.id();
                let Some(token) = notified.first_mut() else { return Poll::Ready(()) };
                let place = Place::Notification(id);
                attempt::poll(handle.shard(), place, token, cx, |state, _| poll_notified(state, id))
            }
            Source::Endpoint(bound) => {
                poll_any(bound, Place::NotificationMany, notified, cx, poll_notified_many)
            }
            Source::Listener(_) => Poll::Ready(()),
        }
    }

    /// Stops waiting, so that the waker is no longer kept.
    fn forget(&mut self) {
        let Self { source, read, notified, write } = self;
        match source {
            Source::Association(handle, stream) => {
                let id: EngineId = handle.id();
                forget(handle.shard(), Place::WritePolled(id, *stream), write);
                read.iter_mut().for_each(|token| forget(handle.shard(), Place::Read(id), token));
                notified.iter_mut().for_each(|token| forget(handle.shard(), Place::Notification(id), token));
            }
            Source::Endpoint(bound) => {
                forget_all(bound, Place::WatchMany, read);
                forget_all(bound, Place::NotificationMany, notified);
            }
            Source::Listener(bound) => forget_all(bound, Place::WatchAccept, read),
        }
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        self.forget();
    }
}

/// Polls all shards of a socket: ready if one has something, or all are finished.
fn poll_any(
    bound: &Bound,
    place: fn(u32) -> Place,
    tokens: &mut [Token],
    cx: &mut Context<'_>,
    poll: fn(&mut State, u32) -> Poll<Has>,
) -> Poll<()> {
    let mut all_finished = true;
    for ((_, shard, socket), token) in bound.each().zip(tokens.iter_mut()) {
        match attempt::poll(shard, place(socket), token, cx, |state, _| poll(state, socket)) {
            Poll::Ready(Has::Something) => {
                forget_all(bound, place, tokens);
                return Poll::Ready(());
            }
            Poll::Ready(Has::Finished) => {}
            Poll::Pending => all_finished = false,
        }
    }
    if all_finished { Poll::Ready(()) } else { Poll::Pending }
}

fn forget_all(bound: &Bound, place: fn(u32) -> Place, tokens: &mut [Token]) {
    let each = bound.each().map(|(_, shard, socket): (u16, &Arc<Shard>, u32)| (shard, socket));
    for ((shard, socket), token) in each.zip(tokens) {
        forget(shard, place(socket), token);
    }
}
