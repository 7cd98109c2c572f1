//! Requests of an HTTP/2 connection whose client takes nothing, and connections without requests.
//!
//! The windows of HTTP/2 let a client hold responses back while it reads from the connection, and answers pings. So
//! each request has a time-out of its own. hyper runs each request as a task of the executor that it is given, and
//! asks a body for data only once the client has room for it. [`Requests`] is that executor: it drops the task of a
//! request whose body waits to be polled for too long, which resets its stream.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::rt::Executor;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

tokio::task_local! {
    /// The response of the request that the current task answers.
    static CURRENT: Arc<Response>;
}

/// The requests in progress of a connection.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    count: Arc<Count>,
    /// Time for which a client may take nothing of a response.
    write_timeout: Duration,
}

#[derive(Debug, Default)]
struct Count {
    in_progress: AtomicUsize,
    /// Notified when a request begins or ends.
    changed: Notify,
}

impl Requests {
    pub(super) fn new(write_timeout: Duration) -> Self {
        Self { count: Arc::default(), write_timeout }
    }

    /// Waits until there has been no request for a time.
    pub(super) async fn idle(&self, limit: Duration) {
        loop {
            let changed = self.count.changed.notified();
            if self.count.in_progress.load(Ordering::Acquire) > 0 {
                changed.await;
                continue;
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(limit) => return,
            }
        }
    }
}

/// A request that counts as one in progress.
struct InProgress(Arc<Count>);

impl InProgress {
    fn begin(count: &Arc<Count>) -> Self {
        count.in_progress.fetch_add(1, Ordering::AcqRel);
        count.changed.notify_waiters();
        Self(Arc::clone(count))
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Requests {
    fn execute(&self, request: F) {
        let in_progress = InProgress::begin(&self.count);
        let task = Task {
            request: Some(Box::pin(request)),
            response: Arc::default(),
            limit: self.write_timeout,
            waiting: None,
        };
        tokio::spawn(async move {
            task.await;
            drop(in_progress);
        });
    }
}

/// How far a response is.
#[derive(Debug, Default)]
struct Response {
    /// Whether the client has to make room before the body is asked for more.
    waits_for_client: AtomicBool,
    /// How often the body was polled.
    polls: AtomicU64,
}

/// A request, and its response until the client has taken it.
struct Task<F> {
    request: Option<Pin<Box<F>>>,
    response: Arc<Response>,
    limit: Duration,
    /// Runs while the client takes nothing, since the body was polled so many times.
    waiting: Option<(u64, Pin<Box<Sleep>>)>,
}

impl<F: Future<Output = ()>> Future for Task<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Some(request) = &mut this.request else { return Poll::Ready(()) };
        if CURRENT.sync_scope(Arc::clone(&this.response), || request.as_mut().poll(cx)).is_ready() {
            return Poll::Ready(());
        }
        if !this.response.waits_for_client.load(Ordering::Acquire) {
            this.waiting = None;
            return Poll::Pending;
        }
        let polls = this.response.polls.load(Ordering::Acquire);
        if this.waiting.as_ref().is_none_or(|(since, _)| *since != polls) {
            // An overflow means that the limit is beyond any uptime.
            #[allow(clippy::disallowed_methods, reason = "a time-out of the network")]
            let Some(deadline) = Instant::now().checked_add(this.limit) else { return Poll::Pending };
            this.waiting = Some((polls, Box::pin(tokio::time::sleep_until(deadline))));
        }
        let Some((_, waiting)) = &mut this.waiting else { return Poll::Pending };
        if waiting.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        tracing::debug!("resetting an HTTP/2 stream: the client takes nothing");
        this.request = None;
        Poll::Ready(())
    }
}

/// The body of a response to a request of [`Requests`].
#[derive(Debug)]
pub(super) struct WatchedBody<B> {
    inner: B,
    response: Option<Arc<Response>>,
}

impl<B> WatchedBody<B> {
    /// Watches the body of the request that the current task answers.
    pub(super) fn new(inner: B) -> Self {
        let response = CURRENT.try_with(Arc::clone).ok();
        let body = Self { inner, response };
        body.set(true);
        body
    }

    fn set(&self, waits_for_client: bool) {
        if let Some(response) = &self.response {
            response.polls.fetch_add(1, Ordering::AcqRel);
            response.waits_for_client.store(waits_for_client, Ordering::Release);
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for WatchedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.inner).poll_frame(cx);
        this.set(matches!(frame, Poll::Ready(Some(Ok(_)))));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
