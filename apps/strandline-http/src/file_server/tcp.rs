//! HTTP/1.1 and HTTP/2 on TCP, with and without TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use strandline_tls::{AcceptErrors, ServerTls};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::log::{LoggedBody, Sender, Transport};
use super::preface::Prefixed;
use super::site::Site;
use super::tls::TlsStream;
use crate::stall::WriteLimit;

/// Requests of one HTTP/2 connection at the same time.
const HTTP2_STREAMS_MAX: u32 = 128;
/// Time between two pings of HTTP/2, and the time for their answer.
const HTTP2_PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) connections_max: usize,
    pub(super) head_timeout: Duration,
    pub(super) write_timeout: Duration,
    pub(super) head_bytes_max: u32,
}

/// Serves connections until the sender of `stopping` is gone, and then until they are done.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<ServerTls>,
    site: Arc<Site>,
    limits: Limits,
    mut stopping: watch::Receiver<()>,
) {
    let permits = Arc::new(Semaphore::new(limits.connections_max));
    let mut connections = JoinSet::new();
    let mut errors = AcceptErrors::default();
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { break };
        let accepted = tokio::select! {
            _ = stopping.changed() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((tcp, from)) => {
                let (site, tls, stopping) = (Arc::clone(&site), tls.clone(), stopping.clone());
                connections.spawn(async move {
                    if let Err(error) = accept(tcp, from, tls, site, limits, stopping).await {
                        tracing::debug!(%error, %from, "an HTTP connection failed");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                let found = errors.on_error(&error);
                if let Some(unlogged) = found.log {
                    tracing::warn!(%error, unlogged, "accepting a TCP connection failed");
                }
                tokio::time::sleep(found.pause).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

async fn accept(
    tcp: TcpStream,
    from: SocketAddr,
    tls: Option<ServerTls>,
    site: Arc<Site>,
    limits: Limits,
    stopping: watch::Receiver<()>,
) -> Result<(), BoxError> {
    tcp.set_nodelay(true)?;
    let sender = |transport| Sender { address: Some(from), transport, stream: None };
    match tls {
        Some(tls) => {
            let stream = TlsStream::accept(tcp, &tls)?;
            connection(stream, sender(Transport::Tls), site, limits, stopping).await
        }
        None => connection(tcp, sender(Transport::Tcp), site, limits, stopping).await,
    }
}

/// Serves one connection.
async fn connection<T>(
    io: T,
    sender: Sender,
    site: Arc<Site>,
    limits: Limits,
    mut stopping: watch::Receiver<()>,
) -> Result<(), BoxError>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (io, is_http2) = tokio::select! {
        _ = stopping.changed() => return Ok(()),
        read = tokio::time::timeout(limits.head_timeout, Prefixed::read(io)) => read??,
    };
    let io = TokioIo::new(WriteLimit::new(io, limits.write_timeout));
    let service = service_fn(move |request: Request<Incoming>| {
        let response = site.answer(&request, sender);
        async move { Ok::<Response<LoggedBody>, io::Error>(response) }
    });
    if is_http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(HTTP2_STREAMS_MAX)
            .max_header_list_size(limits.head_bytes_max)
            .keep_alive_interval(HTTP2_PING.0)
            .keep_alive_timeout(HTTP2_PING.1);
        let connection = builder.serve_connection(io, service);
        tokio::pin!(connection);
        tokio::select! {
            result = connection.as_mut() => return Ok(result?),
            _ = stopping.changed() => connection.as_mut().graceful_shutdown(),
        }
        Ok(connection.await?)
    } else {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_timeout)
            .max_buf_size(limits.head_bytes_max as usize);
        let connection = builder.serve_connection(io, service);
        tokio::pin!(connection);
        tokio::select! {
            result = connection.as_mut() => return Ok(result?),
            _ = stopping.changed() => connection.as_mut().graceful_shutdown(),
        }
        Ok(connection.await?)
    }
}
