//! HTTP/1.1 and HTTP/2 on TCP, with and without TLS.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use strandline_tls::{AcceptErrors, ServerTls};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::args::Limits;
use super::breakable::{Breakable, Lingering};
use super::http2::{Requests, WatchedBody};
use super::log::{Sender, Transport};
use super::preface::Prefixed;
use super::replies::Watched;
use super::tls::TlsStream;
use super::{BoxError, Handler};
use crate::exchange::Exchange;
use crate::graceful;
use crate::guard::Guard;
use crate::interim::Interim;
use crate::stall::{Broken, WriteLimit};

/// Requests of one HTTP/2 connection at the same time.
const HTTP2_STREAMS_MAX: u32 = 128;
/// Time between two pings of HTTP/2, and the time for their answer.
const HTTP2_PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

/// Time for which the rest of a request is read that was answered before its end.
const REST_TIMEOUT: Duration = Duration::from_secs(10);

/// Accepts connections.
pub(super) struct Acceptor {
    pub(super) listener: TcpListener,
    pub(super) tls: Option<ServerTls>,
    pub(super) limits: Limits,
    /// The runtimes that get the connections in turn. Empty: the one that accepts them.
    pub(super) runtimes: Vec<Handle>,
}

impl Acceptor {
    /// Serves connections until the sender of `stopping` is gone, and then until they are done. Once the sender of
    /// `cut` is gone, they are reset.
    ///
    /// # Errors
    /// If no more connections can be accepted.
    pub(super) async fn serve<H: Handler>(
        self,
        handler: Arc<H>,
        mut stopping: watch::Receiver<()>,
        mut cut: watch::Receiver<()>,
    ) -> io::Result<()> {
        let Self { listener, tls, limits, runtimes } = self;
        let permits = Arc::new(Semaphore::new(limits.connections_max));
        let mut connections = JoinSet::new();
        let mut errors = AcceptErrors::default();
        let mut turns = runtimes.iter().cycle();
        loop {
            let permit = tokio::select! {
                _ = stopping.changed() => break,
                permit = Arc::clone(&permits).acquire_owned() => permit,
            };
            let Ok(permit) = permit else { break };
            let accepted = tokio::select! {
                _ = stopping.changed() => break,
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            let runtime = turns.next();
            let (tcp, from) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    errors.recover(error).await?;
                    continue;
                }
            };
            match Accepted::new(tcp, runtime.is_some()) {
                Ok(tcp) => {
                    let (handler, tls, stopping) = (Arc::clone(&handler), tls.clone(), stopping.clone());
                    let serving = async move {
                        if let Err(error) = accept(tcp, from, tls, handler, limits, stopping).await {
                            tracing::debug!(%error, %from, "an HTTP connection failed");
                        }
                        drop(permit);
                    };
                    match runtime {
                        Some(runtime) => connections.spawn_on(serving, runtime),
                        None => connections.spawn(serving),
                    };
                }
                Err(error) => errors.pause_after(&error).await,
            }
        }
        drop(listener);
        let drained = async { while connections.join_next().await.is_some() {} };
        tokio::select! {
            () = drained => return Ok(()),
            _ = cut.changed() => {}
        }
        connections.shutdown().await;
        Ok(())
    }
}

/// An accepted connection, which may be served on another runtime.
enum Accepted {
    Here(TcpStream),
    Elsewhere(std::net::TcpStream),
}

impl Accepted {
    fn new(tcp: TcpStream, is_elsewhere: bool) -> io::Result<Self> {
        Ok(if is_elsewhere { Self::Elsewhere(tcp.into_std()?) } else { Self::Here(tcp) })
    }

    /// Returns the connection on the current runtime.
    fn open(self) -> io::Result<TcpStream> {
        match self {
            Self::Here(tcp) => Ok(tcp),
            Self::Elsewhere(tcp) => TcpStream::from_std(tcp),
        }
    }
}

async fn accept<H: Handler>(
    tcp: Accepted,
    from: SocketAddr,
    tls: Option<ServerTls>,
    handler: Arc<H>,
    limits: Limits,
    stopping: watch::Receiver<()>,
) -> Result<(), BoxError> {
    let tcp = tcp.open()?;
    tcp.set_nodelay(true)?;
    let sender = |transport| Sender { address: Some(from), transport, stream: None };
    match tls {
        Some(tls) => {
            let stream = TlsStream::accept(tcp, &tls)?;
            connection(stream, sender(Transport::Tls), handler, limits, stopping).await
        }
        None => connection(tcp, sender(Transport::Tcp), handler, limits, stopping).await,
    }
}

/// Serves one connection.
pub(super) async fn connection<H: Handler, T>(
    io: T,
    sender: Sender,
    handler: Arc<H>,
    limits: Limits,
    mut stopping: watch::Receiver<()>,
) -> Result<(), BoxError>
where
    T: AsyncRead + AsyncWrite + Lingering + Unpin + Send + 'static,
{
    let (io, is_http2) = tokio::select! {
        _ = stopping.changed() => return Ok(()),
        read = tokio::time::timeout(limits.head_timeout, Prefixed::read(io)) => read??,
    };
    let broken = Broken::default();
    let io = Breakable::new(io, broken.clone());
    let stopped = async { drop(stopping.changed().await) };
    if is_http2 {
        return http2(io, broken, sender, handler, (limits, stopped)).await;
    }
    let (exchange, interim) = (Exchange::default(), Interim::default());
    let refusing = Arc::clone(&handler);
    let on_refused = Box::new(move |status| refusing.refused(status, Version::HTTP_11, sender));
    let guard = Guard::new(io, exchange.clone(), interim.clone(), on_refused).rest_timeout(REST_TIMEOUT);
    let io = TokioIo::new(WriteLimit::breaking(guard, limits.write_timeout, broken.clone()));
    let cut = broken.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (answering, broken) = (exchange.begin(&mut request), broken.clone());
        request.extensions_mut().insert(broken.clone());
        request.extensions_mut().insert(interim.clone());
        let response = Arc::clone(&handler).answer(request, sender);
        async move {
            let response = answering.respond(response.await);
            Ok::<_, io::Error>(response.map(|inner| BreakingBody { inner, broken }))
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(limits.head_bytes_max as usize);
    let connection = builder.serve_connection(io, service).with_upgrades();
    Ok(graceful::run(connection, stopped, &cut).await?)
}

/// Serves a connection of HTTP/2.
async fn http2<H: Handler, T>(
    io: Breakable<T>,
    broken: Broken,
    sender: Sender,
    handler: Arc<H>,
    (limits, stopped): (Limits, impl Future<Output = ()>),
) -> Result<(), BoxError>
where
    T: AsyncRead + AsyncWrite + Lingering + Unpin + Send + 'static,
{
    let refusing = Arc::clone(&handler);
    let on_refused = move || {
        refusing.refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, Version::HTTP_2, sender);
    };
    let io = Watched::new(io, Box::new(on_refused));
    let io = TokioIo::new(WriteLimit::breaking(io, limits.write_timeout, broken.clone()));
    let service = service_fn(move |request: Request<Incoming>| {
        let answering = Arc::clone(&handler).answer(request, sender);
        async move { Ok::<_, io::Error>(answering.await.map(WatchedBody::new)) }
    });
    let requests = Requests::new(limits.write_timeout);
    let mut builder = http2::Builder::new(requests.clone());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .max_header_list_size(limits.head_bytes_max)
        .keep_alive_interval(HTTP2_PING.0)
        .keep_alive_timeout(HTTP2_PING.1);
    let stopping = async {
        tokio::select! {
            () = stopped => {}
            () = requests.idle(limits.idle_timeout) => {}
        }
    };
    let served = graceful::run(builder.serve_connection(io, service), stopping, &broken);
    tokio::select! {
        result = served => Ok(result?),
        // The ends of responses may still wait for a client that takes nothing.
        () = requests.idle(limits.idle_timeout.saturating_add(limits.write_timeout)) => {
            Err(io::Error::from(io::ErrorKind::TimedOut).into())
        }
    }
}

/// A body whose error breaks its connection.
#[derive(Debug)]
struct BreakingBody<B> {
    inner: B,
    broken: Broken,
}

impl<B: Body<Data = Bytes> + Unpin> Body for BreakingBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.inner).poll_frame(cx);
        if let Poll::Ready(Some(Err(_))) = &frame {
            this.broken.set();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
