//! Connections of hyper that end once their requests in progress are answered.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;

use hyper::body::{Body, Incoming};
use hyper::rt::bounds::Http2ServerConnExec;
use hyper::server::conn::{http1, http2};
use hyper::service::HttpService;

use crate::stall::Broken;

type BoxError = Box<dyn Error + Send + Sync>;

/// A connection that can be told to accept no further request.
pub(crate) trait Graceful: Future<Output = hyper::Result<()>> {
    /// Lets the connection end once the requests in progress are answered.
    fn graceful_shutdown(self: Pin<&mut Self>);
}

impl<I, B, S> Graceful for http1::UpgradeableConnection<I, S>
where
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<BoxError>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    B: Body + 'static,
    B::Error: Into<BoxError>,
{
    fn graceful_shutdown(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, B, S, E> Graceful for http2::Connection<I, S, E>
where
    E: Http2ServerConnExec<S::Future, B>,
    S: HttpService<Incoming, ResBody = B>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    fn graceful_shutdown(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Runs a connection. Once `stopping` completes, it ends after the requests in progress. If the future is dropped
/// before that, the connection is broken: what it sent doesn't look complete.
pub(crate) async fn run(
    connection: impl Graceful,
    stopping: impl Future<Output = ()>,
    broken: &Broken,
) -> hyper::Result<()> {
    tokio::pin!(connection);
    // Dropped before the connection.
    let unfinished = broken.unless_done();
    tokio::pin!(stopping);
    let result = tokio::select! {
        result = connection.as_mut() => Some(result),
        () = stopping => None,
    };
    let result = match result {
        Some(result) => result,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    unfinished.done();
    result
}
