//! Counts of requests and responses, for metrics.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode, Version};
use strandline::Stack;

use super::Handler;
use super::log::{AccessLog, Sender};

/// Classes of status codes, as labels.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Counts of a server's requests.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    responses: [AtomicU64; CLASSES.len()],
    in_progress: AtomicU64,
}

impl Traffic {
    /// Returns the number of responses for each class of status codes. Refused requests count, too.
    pub(super) fn responses(&self) -> [(&'static str, u64); CLASSES.len()] {
        let mut counts = CLASSES.map(|class| (class, 0));
        for ((_, count), responses) in counts.iter_mut().zip(&self.responses) {
            *count = responses.load(Ordering::Relaxed);
        }
        counts
    }

    /// Returns the number of requests whose response has not begun.
    pub(super) fn in_progress(&self) -> u64 {
        self.in_progress.load(Ordering::Relaxed)
    }

    fn on_response(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(responses) = self.responses.get(class) {
            responses.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A request that counts as in progress until it is dropped.
struct InProgress(Arc<Traffic>);

impl InProgress {
    fn begin(traffic: &Arc<Traffic>) -> Self {
        traffic.in_progress.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(traffic))
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A handler whose requests and responses are counted.
pub(super) struct Counted<H> {
    pub(super) handler: Arc<H>,
    pub(super) traffic: Arc<Traffic>,
}

impl<H: Handler> Handler for Counted<H> {
    type Body = H::Body;

    async fn answer(self: Arc<Self>, request: Request<Incoming>, sender: Sender) -> Response<H::Body> {
        let in_progress = InProgress::begin(&self.traffic);
        let response = Arc::clone(&self.handler).answer(request, sender).await;
        in_progress.0.on_response(response.status());
        response
    }

    fn refused(&self, status: StatusCode, version: Version, sender: Sender) {
        self.traffic.on_response(status);
        self.handler.refused(status, version, sender);
    }

    fn drained(&self) -> impl Future<Output = ()> + Send {
        self.handler.drained()
    }

    fn cut(&self) -> impl Future<Output = ()> + Send {
        self.handler.cut()
    }

    fn stacks(&self) -> Vec<Stack> {
        self.handler.stacks()
    }

    fn access_log(&self) -> Option<&Arc<AccessLog>> {
        self.handler.access_log()
    }
}
