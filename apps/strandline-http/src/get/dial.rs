//! Connections over TCP and TLS.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper::http::uri::Scheme;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use strandline_tls::{ClientTls, TlsError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower_service::Service;

use crate::front::TlsStream;
use crate::happy_eyeballs;

/// Why there is no connection.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum DialError {
    /// The host has no address.
    #[error("{0}")]
    Host(String),
    /// No address accepts connections.
    #[error("{0}")]
    Connect(String),
    /// The server's certificate isn't accepted.
    #[error("{0}")]
    Certificate(String),
    /// The TLS handshake fails.
    #[error("{0}")]
    Tls(String),
    /// The authorities can't be read.
    #[error("{0}")]
    Authorities(String),
    /// The time is over.
    #[error("no connection within {} s", .0.as_secs_f64())]
    Timeout(Duration),
}

/// By what servers are verified.
#[derive(Debug)]
pub(super) struct Trust {
    /// A file of authorities.
    pub(super) authorities: PathBuf,
    /// Any certificate is accepted.
    pub(super) is_insecure: bool,
}

/// A connector for `http` and `https`. Clones share their settings.
#[derive(Debug, Clone)]
pub(super) struct Dial(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    trust: Trust,
    /// Time for the address, the connection and TLS.
    limit: Duration,
    /// Read with the first use of TLS.
    tls: OnceLock<Result<ClientTls, DialError>>,
}

impl Dial {
    pub(super) fn new(trust: Trust, limit: Duration) -> Self {
        Self(Arc::new(Shared { trust, limit, tls: OnceLock::new() }))
    }

    fn tls(&self) -> Result<ClientTls, DialError> {
        let read = || {
            let Trust { authorities, is_insecure } = &self.0.trust;
            let tls = if *is_insecure { ClientTls::insecure() } else { ClientTls::web(authorities) };
            tls.map_err(|error: TlsError| DialError::Authorities(error.to_string()))
        };
        self.0.tls.get_or_init(read).clone()
    }

    async fn connect_in_time(self, uri: Uri) -> Result<TokioIo<Wire>, DialError> {
        let limit = self.0.limit;
        tokio::time::timeout(limit, self.connect(uri)).await.unwrap_or(Err(DialError::Timeout(limit)))
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<Wire>, DialError> {
        let is_tls = uri.scheme() == Some(&Scheme::HTTPS);
        let host = uri.host().unwrap_or_default();
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let tcp = happy_eyeballs::tcp(host, port).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DialError::Host(error.to_string()),
            _ => DialError::Connect(format!("{host} port {port}: {error}")),
        })?;
        if !is_tls {
            return Ok(TokioIo::new(Wire::Plain(tcp)));
        }
        let name = host.trim_matches(['[', ']']);
        match TlsStream::connect(tcp, &self.tls()?, name).await {
            Ok(tls) => Ok(TokioIo::new(Wire::Tls(Box::new(tls)))),
            Err(error) => Err(handshake_failed(host, &error)),
        }
    }
}

/// Tells a certificate that isn't accepted from other failures.
fn handshake_failed(host: &str, error: &io::Error) -> DialError {
    let mut text = format!("{host}: {error}");
    if text.contains("CaUsedAsEndEntity") {
        text.push_str(
            ". The server uses the certificate of an authority as its own. It needs one of its own, signed by that \
             authority, or a self-signed one with CA:FALSE: openssl req -x509 -addext basicConstraints=CA:FALSE ...",
        );
    }
    if error.to_string().contains("invalid peer certificate") {
        DialError::Certificate(text)
    } else {
        DialError::Tls(text)
    }
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Wire>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Wire>, DialError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect_in_time(uri))
    }
}

/// A connection with or without TLS.
pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_shutdown(cx),
        }
    }
}
