//! The server's side: answers requests on the streams of all associations of a listener.

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use strandline::{Association, Listener};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::framing::{Guard, Tunnelled, is_connect};
use crate::graceful;
use crate::interim::Interim;
use crate::stall::WriteLimit;
use crate::streams::{HttpAssociation, HttpStream, Settings};

/// Where a request came from. [`serve`] inserts it into the extensions of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfo {
    /// The peer's primary address when the stream was opened: IP address and encapsulation port.
    pub peer: Option<SocketAddr>,
    /// The stream.
    pub stream: u16,
}

/// Settings of [`serve`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServeOptions {
    /// Settings of each association.
    pub settings: Settings,
    /// Time within which the head of the next request must arrive on an open connection, the idle time before
    /// it included. Default: 60 s.
    pub head_timeout: Duration,
    /// Time after which a connection whose peer takes nothing is reset. Default: 60 s.
    pub write_timeout: Duration,
    /// Largest head of a request, in bytes; at least 8 KiB. hyper checks it between reads, so that up to twice as
    /// much may pass. Default: 64 KiB.
    pub head_bytes_max: usize,
    /// Associations at the same time; further ones are aborted. Default: 65,536.
    pub associations_max: usize,
    /// Time that requests in progress have once the shutdown begins. Default: 30 s.
    pub drain_timeout: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            head_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(60),
            head_bytes_max: 64 << 10,
            associations_max: 65_536,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// Smallest buffer that hyper takes.
const HEAD_BYTES_MIN: usize = 8 << 10;

type BoxError = Box<dyn Error + Send + Sync>;

/// Answers the requests of all associations of a listener with a service of hyper. Use
/// [`TowerToHyperService`](hyper_util::service::TowerToHyperService) for one of tower, such as a router of
/// axum. Each request has a [`StreamInfo`] among its extensions.
///
/// Once `shutdown` completes, no association is accepted any more, requests in progress are answered, and the
/// function returns.
pub async fn serve<S, B>(
    listener: Listener,
    service: S,
    options: ServeOptions,
    shutdown: impl Future<Output = ()> + Send,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    serve_on(Arc::new(listener), None, service, options, shutdown).await;
}

/// Serves as [`serve`] does, only the associations of one shard if one is given.
pub(crate) async fn serve_on<S, B>(
    listener: Arc<Listener>,
    shard: Option<usize>,
    service: S,
    options: ServeOptions,
    shutdown: impl Future<Output = ()> + Send,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let accept = async || match shard {
        Some(shard) => listener.accept_on(shard).await,
        None => listener.accept().await,
    };
    let (stop, stopping) = watch::channel(());
    let mut associations = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = associations.join_next() => {}
            accepted = accept() => match accepted {
                Ok(association) if associations.len() >= options.associations_max => {
                    association.abort("too many associations");
                }
                Ok(association) => {
                    let (service, options) = (service.clone(), options.clone());
                    associations.spawn(serve_association(association, service, options, stopping.clone()));
                }
                Err(error) => {
                    tracing::debug!(%error, "the listener for HTTP ends");
                    break;
                }
            },
        }
    }
    listener.stop_accepting();
    drop(stop);
    let drained = async { while associations.join_next().await.is_some() {} };
    if tokio::time::timeout(options.drain_timeout, drained).await.is_err() {
        tracing::info!("closing HTTP connections that are still in use");
        associations.shutdown().await;
    }
}

/// Answers the requests on one association until it ends, or until the sender of `stopping` is gone and all
/// requests are answered.
async fn serve_association<S, B>(
    association: Association,
    service: S,
    options: ServeOptions,
    mut stopping: watch::Receiver<()>,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let http = HttpAssociation::server(association, options.settings.clone());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = stopping.changed() => break,
            Some(_) = connections.join_next() => {}
            accepted = http.accept() => match accepted {
                Some(stream) => {
                    let info = StreamInfo { peer: http.peer_address(), stream: stream.stream() };
                    connections.spawn(serve_stream(
                        stream,
                        info,
                        service.clone(),
                        options.clone(),
                        stopping.clone(),
                    ));
                }
                None => return,
            },
        }
    }
    while connections.join_next().await.is_some() {}
    http.shutdown().await;
}

async fn serve_stream<S, B>(
    stream: HttpStream,
    info: StreamInfo,
    service: S,
    options: ServeOptions,
    stopping: watch::Receiver<()>,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let (tunnelled, interim) = (Tunnelled::default(), Interim::default());
    let guard = Guard::new(stream, tunnelled.clone(), interim.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(info);
        request.extensions_mut().insert(interim.clone());
        let (is_connect, tunnelled) = (is_connect(&request), tunnelled.clone());
        let answering = service.call(request);
        async move {
            let response = answering.await?;
            tunnelled.on_response(is_connect, response.status());
            Ok::<_, S::Error>(response)
        }
    });
    let io = TokioIo::new(WriteLimit::new(guard, options.write_timeout));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.head_timeout)
        .max_buf_size(options.head_bytes_max.max(HEAD_BYTES_MIN))
        .serve_connection(io, service)
        .with_upgrades();
    let result = graceful::run(connection, stopping).await;
    if let Err(error) = result {
        tracing::debug!(%error, stream = info.stream, "an HTTP connection on a stream failed");
    }
}
