//! The bodies of requests and responses on their way through the proxy.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, Sleep};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Time that an upstream server has to send 100. One that doesn't know the expectation never does.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);

/// How far the body of a request is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    frames: AtomicU64,
    waits_for_client: AtomicBool,
    has_failed: AtomicBool,
}

impl Progress {
    /// Returns the number of frames that were passed on.
    pub(super) fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Returns whether the client's body is malformed, or broke off.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Returns whether the client has more to send, and doesn't.
    pub(super) fn waits_for_client(&self) -> bool {
        self.waits_for_client.load(Ordering::Relaxed)
    }
}

/// Where a body is that wasn't sent yet.
pub(super) type Home = Arc<Mutex<Option<Incoming>>>;

/// The body of a request. It returns to its home if nothing of it was asked for, so that the request can be sent
/// another way.
#[derive(Debug)]
pub(super) struct RequestBody {
    inner: Option<Incoming>,
    home: Home,
    is_used: bool,
    progress: Arc<Progress>,
    /// The client waits for 100: the body is asked for once the upstream server sends that, or after a time.
    gate: Option<Gate>,
}

/// What the body of a request waits for.
#[derive(Debug)]
struct Gate {
    /// Notified once the upstream server has sent 100. The sender is dropped if the response comes without it.
    opened: Option<oneshot::Receiver<()>>,
    timeout: Pin<Box<Sleep>>,
}

impl Gate {
    fn is_open(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(opened) = &mut self.opened {
            match Pin::new(opened).poll(cx) {
                Poll::Ready(Ok(())) => return true,
                Poll::Ready(Err(_)) => self.opened = None,
                Poll::Pending => {}
            }
        }
        self.timeout.as_mut().poll(cx).is_ready()
    }
}

impl RequestBody {
    /// Takes the body from its home; empty if there is none.
    pub(super) fn new(home: &Home, progress: &Arc<Progress>, gate: Option<oneshot::Receiver<()>>) -> Self {
        let inner = home.lock().unwrap_or_else(PoisonError::into_inner).take();
        let gate = gate.map(|opened| Gate {
            opened: Some(opened),
            timeout: Box::pin(tokio::time::sleep(CONTINUE_TIMEOUT)),
        });
        Self { inner, home: Arc::clone(home), is_used: false, progress: Arc::clone(progress), gate }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
        if let Some(gate) = &mut this.gate {
            if !gate.is_open(cx) {
                return Poll::Pending;
            }
            this.gate = None;
        }
        this.is_used = true;
        let frame = Pin::new(inner).poll_frame(cx);
        this.progress.waits_for_client.store(frame.is_pending(), Ordering::Relaxed);
        if let Poll::Ready(Some(Err(_))) = &frame {
            this.progress.has_failed.store(true, Ordering::Relaxed);
        }
        if frame.is_ready() {
            this.progress.frames.fetch_add(1, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if !self.is_used {
            *self.home.lock().unwrap_or_else(PoisonError::into_inner) = self.inner.take();
        }
    }
}

/// The body of a response: a text of the proxy, or what the upstream server sends.
#[derive(Debug)]
pub(super) enum ResponseBody {
    Text(Option<Bytes>),
    Upstream(Box<UpstreamBody>),
}

/// What an upstream server sends.
#[derive(Debug)]
pub(super) struct UpstreamBody {
    inner: Incoming,
    /// Time without anything from the upstream server after which the response fails.
    limit: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    /// The request counts as one in progress for as long.
    _permit: OwnedSemaphorePermit,
}

impl ResponseBody {
    pub(super) fn text(text: impl Into<Bytes>) -> Self {
        Self::Text(Some(text.into()).filter(|text: &Bytes| !text.is_empty()))
    }

    pub(super) fn upstream(inner: Incoming, limit: Duration, permit: OwnedSemaphorePermit) -> Self {
        Self::Upstream(Box::new(UpstreamBody { inner, limit, waiting: None, _permit: permit }))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let upstream = match self.get_mut() {
            Self::Text(text) => return Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Upstream(upstream) => upstream,
        };
        if let Poll::Ready(frame) = Pin::new(&mut upstream.inner).poll_frame(cx) {
            upstream.waiting = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        // An overflow means that the limit is beyond any uptime.
        #[allow(clippy::disallowed_methods, reason = "a time-out of the network")]
        let Some(deadline) = Instant::now().checked_add(upstream.limit) else { return Poll::Pending };
        let waiting = upstream.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text) => text.is_none(),
            Self::Upstream(upstream) => upstream.inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Self::Upstream(upstream) => upstream.inner.size_hint(),
        }
    }
}
