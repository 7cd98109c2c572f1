//! The server's side: answers requests on the streams of all associations of a listener.

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use strandline::{AcceptError, Association, Listener};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::exchange::Exchange;
use crate::graceful;
use crate::guard::{Guard, OnRefused};
use crate::interim::Interim;
use crate::stall::{Broken, WriteLimit};
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
    /// Settings of each association. [`Settings::idle_timeout`] is 300 s by default here.
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
    /// Time that requests in progress have once the shutdown begins. Then their associations are aborted. Default:
    /// 30 s.
    pub drain_timeout: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            settings: Settings::default().idle_timeout(Duration::from_secs(300)),
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
///
/// # Errors
/// If no more associations can be accepted: the stack is gone. Those that exist are aborted.
pub async fn serve<S, B>(
    listener: Listener,
    service: S,
    options: ServeOptions,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), AcceptError>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let part = Part { listener: Arc::new(listener), shard: None, on_refused: Arc::new(|_, _| ()) };
    serve_on(part, service, options, (shutdown, std::future::pending())).await
}

/// Called with the status of each answer that no service gives: heads of requests that can't be read.
type OnStreamRefused = Arc<dyn Fn(StatusCode, StreamInfo) + Send + Sync>;

/// The associations that are served.
pub(crate) struct Part {
    pub(crate) listener: Arc<Listener>,
    /// Only those of this shard.
    pub(crate) shard: Option<usize>,
    pub(crate) on_refused: OnStreamRefused,
}

/// Serves as [`serve`] does. `ends` are the shutdown, and an end without waiting for requests in progress.
pub(crate) async fn serve_on<S, B>(
    Part { listener, shard, on_refused }: Part,
    service: S,
    options: ServeOptions,
    ends: (impl Future<Output = ()> + Send, impl Future<Output = ()> + Send),
) -> Result<(), AcceptError>
where
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
    let (shutdown, cut) = ends;
    tokio::pin!(shutdown, cut);
    let result = loop {
        tokio::select! {
            () = &mut shutdown => break Ok(()),
            Some(_) = associations.join_next() => {}
            accepted = accept() => match accepted {
                Ok(association) if associations.len() >= options.associations_max => {
                    association.abort("too many associations");
                }
                Ok(association) => {
                    let (service, options) = (service.clone(), options.clone());
                    let stopping = (stopping.clone(), Arc::clone(&on_refused));
                    associations.spawn(serve_association(association, service, options, stopping));
                }
                // Another part of the listener has learned of the shutdown before.
                Err(AcceptError::Stopped) => break Ok(()),
                // None of them is transient: nothing more will come.
                Err(error) => break Err(error),
            },
        }
    };
    listener.stop_accepting();
    drop(stop);
    if result.is_ok() {
        let drained = async { while associations.join_next().await.is_some() {} };
        tokio::select! {
            () = drained => return result,
            () = tokio::time::sleep(options.drain_timeout) => {
                tracing::info!("aborting associations that are still in use");
            }
            () = &mut cut => {}
        }
    }
    associations.shutdown().await;
    result
}

/// An association that is aborted unless it has been served to its end.
struct Served {
    http: HttpAssociation,
    is_done: bool,
}

impl Drop for Served {
    fn drop(&mut self) {
        if !self.is_done {
            self.http.association().abort("the server ends");
        }
    }
}

/// Answers the requests on one association until it ends, or until the sender of `stopping` is gone and all
/// requests are answered.
async fn serve_association<S, B>(
    association: Association,
    service: S,
    options: ServeOptions,
    (mut stopping, on_refused): (watch::Receiver<()>, OnStreamRefused),
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let mut connections = JoinSet::new();
    // Dropped before the connections: their ends would otherwise be told one by one, or not at all to a peer that
    // knows no control messages.
    let mut served =
        Served { http: HttpAssociation::server(association, options.settings.clone()), is_done: false };
    let http = &served.http;
    loop {
        tokio::select! {
            _ = stopping.changed() => break,
            Some(_) = connections.join_next() => {}
            accepted = http.accept() => match accepted {
                Some(stream) => {
                    let info = StreamInfo { peer: http.peer_address(), stream: stream.stream() };
                    let on_refused = Arc::clone(&on_refused);
                    connections.spawn(serve_stream(
                        (stream, info, Box::new(move |status| on_refused(status, info))),
                        service.clone(),
                        options.clone(),
                        stopping.clone(),
                    ));
                }
                None => {
                    // The association has ended, or has no connection left.
                    connections.abort_all();
                    break;
                }
            },
        }
    }
    // Requests that come later are refused at once, not when those in progress are answered.
    tokio::join!(http.shutdown(), async { while connections.join_next().await.is_some() {} });
    served.is_done = true;
}

async fn serve_stream<S, B>(
    (stream, info, on_refused): (HttpStream, StreamInfo, OnRefused),
    service: S,
    options: ServeOptions,
    mut stopping: watch::Receiver<()>,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let (exchange, interim) = (Exchange::default(), Interim::default());
    let guard = Guard::new(stream, exchange.clone(), interim.clone(), on_refused);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(info);
        request.extensions_mut().insert(interim.clone());
        let answering = exchange.begin(&mut request);
        let response = service.call(request);
        async move { Ok::<_, S::Error>(answering.respond(response.await?.map(Box::pin))) }
    });
    let io = TokioIo::new(WriteLimit::new(guard, options.write_timeout));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.head_timeout)
        .max_buf_size(options.head_bytes_max.max(HEAD_BYTES_MIN))
        .serve_connection(io, service)
        .with_upgrades();
    let stopped = async { drop(stopping.changed().await) };
    // A stream that is dropped resets its connection anyway.
    let result = graceful::run(connection, stopped, &Broken::default()).await;
    if let Err(error) = result {
        tracing::debug!(%error, stream = info.stream, "an HTTP connection on a stream failed");
    }
}
