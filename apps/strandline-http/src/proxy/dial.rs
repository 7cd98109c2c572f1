//! Connections to upstream servers, whatever their kind, for hyper-util's client.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use strandline::Stack;
use strandline_tls::ClientTls;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tower_service::Service;

use super::bare_target::BareTarget;
use super::body::RequestBody;
use super::early;
use super::early_answer::Readable;
use crate::client::Connector;
use crate::front::{Breakable, Lingering, TlsStream};
use crate::happy_eyeballs;
use crate::host::port_of;
use crate::stall::{Broken, WriteLimit};
use crate::streams::Settings;

/// Idle connections that are kept for each upstream server.
const IDLE_MAX: usize = 32;
/// Time that an idle connection is kept: shorter than the 60 s and more of common servers.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest head of a response, in bytes.
const HEAD_BYTES_MAX: usize = 128 << 10;
/// Default ports.
const HTTP: u16 = 80;
const HTTPS: u16 = 443;

/// The client of a proxy.
pub(super) type ProxyClient = Client<Dial, RequestBody>;

/// Time-outs of connections to upstream servers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    pub(super) connect: Duration,
    /// Time for which an upstream server may take nothing.
    pub(super) write: Duration,
    /// Time for which the peer of an association may send nothing at all.
    pub(super) silence: Duration,
}

impl Timeouts {
    /// Returns a connector for SCTP.
    pub(super) fn sctp(self, stack: Stack, encapsulation_port: u16) -> Connector {
        let settings = Settings::default().silence_timeout(self.silence);
        Connector::new(stack).encapsulation_port(encapsulation_port).settings(settings)
    }
}

/// The way to an upstream server.
#[derive(Clone)]
pub(super) enum Way {
    /// TCP to the host of the request's URI.
    Tcp,
    /// TLS on TCP to the host of the request's URI.
    Tls(ClientTls),
    /// A socket of this machine.
    Unix(PathBuf),
    /// SCTP to the host of the request's URI.
    Sctp(Connector),
    /// A proxy on TCP.
    ViaTcp(Uri),
    /// A proxy on SCTP.
    ViaSctp(Connector, Uri),
}

impl Way {
    /// Returns the stack of its associations.
    pub(super) fn stack(&self) -> Option<Stack> {
        match self {
            Self::Sctp(connector) | Self::ViaSctp(connector, _) => Some(connector.stack().clone()),
            _ => None,
        }
    }

    /// Returns the name for the access log.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Tcp | Self::ViaTcp(_) => "tcp",
            Self::Tls(_) => "tls",
            Self::Unix(_) => "unix",
            Self::Sctp(_) | Self::ViaSctp(..) => "sctp",
        }
    }
}

/// Returns a client whose connections go one way.
pub(super) fn client(way: Way, timeouts: Timeouts) -> ProxyClient {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_MAX)
        .http1_max_buf_size(HEAD_BYTES_MAX)
        .build(Dial { way, timeouts, has_bare_targets: false })
}

/// Returns a client for requests about whole servers, with paths of `/` in their targets, to another proxy.
pub(super) fn client_for_bare_targets(way: Way, timeouts: Timeouts) -> ProxyClient {
    Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .http1_max_buf_size(HEAD_BYTES_MAX)
        .build(Dial { way, timeouts, has_bare_targets: true })
}

/// Connects one way.
#[derive(Clone)]
pub(super) struct Dial {
    way: Way,
    timeouts: Timeouts,
    /// Whether each connection carries one request, the target of which loses its path.
    has_bare_targets: bool,
}

/// A connection of any kind.
trait Io: AsyncRead + AsyncWrite + Lingering + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Lingering + Send + Unpin> Io for T {}

impl Dial {
    /// Connects, with everything that belongs to it, within the time-out.
    async fn connect(self, uri: Uri) -> io::Result<TokioIo<Upstream>> {
        let is_proxied = matches!(self.way, Way::ViaTcp(..) | Way::ViaSctp(..));
        let timeouts = self.timeouts;
        let io = tokio::time::timeout(timeouts.connect, self.way.connect(uri, timeouts.connect)).await??;
        let io = if self.has_bare_targets { Box::new(BareTarget::new(io)) } else { io };
        let broken = Broken::default();
        Ok(TokioIo::new(Upstream {
            io: WriteLimit::breaking(
                Readable::new(Breakable::new(io, broken.clone())),
                timeouts.write,
                broken.clone(),
            ),
            is_proxied,
            broken,
        }))
    }
}

impl Way {
    /// Connects. `limit` is the time-out, which goes on for an association that isn't established yet.
    async fn connect(self, uri: Uri, limit: Duration) -> io::Result<Box<dyn Io>> {
        Ok(match self {
            Self::Tcp => Box::new(over_tcp(&uri, HTTP).await?),
            Self::ViaTcp(via) => Box::new(over_tcp(&via, HTTP).await?),
            Self::Tls(tls) => {
                let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
                Box::new(TlsStream::connect(over_tcp(&uri, HTTPS).await?, &tls, host).await?)
            }
            Self::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Self::Sctp(connector) => Box::new(early::open(connector, uri, limit).await?),
            Self::ViaSctp(connector, via) => Box::new(early::open(connector, via, limit).await?),
        })
    }
}

/// Connects over TCP to the host of a URI.
async fn over_tcp(uri: &Uri, default_port: u16) -> io::Result<TcpStream> {
    let port = port_of(uri, default_port).ok_or(io::ErrorKind::InvalidInput)?;
    happy_eyeballs::tcp(uri.host().unwrap_or_default(), port).await
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Upstream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Upstream>>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// A connection to an upstream server.
pub(super) struct Upstream {
    io: WriteLimit<Readable<Breakable<Box<dyn Io>>>>,
    is_proxied: bool,
    broken: Broken,
}

impl Connection for Upstream {
    fn connected(&self) -> Connected {
        // Extensions of each response, for tunnels.
        let connected = Connected::new().proxy(self.is_proxied).extra(self.broken.clone());
        connected.extra(self.io.inner().tunnel().clone())
    }
}

impl AsyncRead for Upstream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Upstream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}
