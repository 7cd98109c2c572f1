//! Bytes in both directions after CONNECT or an upgrade.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::front::log::Line;
use crate::stall::Broken;

/// The far side of a tunnel.
pub(super) enum Side {
    /// A connection of the proxy.
    Tcp(TcpStream),
    /// A connection of HTTP that becomes a tunnel.
    Http(OnUpgrade),
}

/// A tunnel that begins once the client has its response.
pub(super) struct Tunnel {
    pub(super) client: OnUpgrade,
    pub(super) upstream: Side,
    /// Time without a byte after which the tunnel ends.
    pub(super) limit: Duration,
    pub(super) broken: Option<Broken>,
    pub(super) line: Option<Line>,
    pub(super) permit: OwnedSemaphorePermit,
}

/// Runs a tunnel in the background.
pub(super) fn begin(tunnel: Tunnel) {
    tokio::spawn(async move {
        let Tunnel { client, upstream, limit, broken, mut line, permit } = tunnel;
        let upgraded = tokio::try_join!(client, async {
            Ok(match upstream {
                Side::Tcp(tcp) => Upstream::Tcp(tcp),
                Side::Http(upgrading) => Upstream::Http(TokioIo::new(upgrading.await?)),
            })
        });
        let (client, upstream) = match upgraded {
            Ok((client, upstream)) => (TokioIo::new(client), upstream),
            Err(error) => {
                tracing::debug!(%error, "a tunnel did not begin");
                return;
            }
        };
        let mut client = client;
        let (received, result) = match upstream {
            Upstream::Tcp(mut tcp) => copy(&mut client, &mut tcp, limit).await,
            Upstream::Http(mut http) => copy(&mut client, &mut http, limit).await,
        };
        if let Some(line) = &mut line {
            line.add_bytes(received);
            if result.is_ok() {
                line.set_complete();
            }
        }
        if let Err(error) = result {
            tracing::debug!(%error, "a tunnel failed");
            if let Some(broken) = broken {
                broken.set();
            }
        }
        drop((client, permit));
    });
}

/// The far side of a tunnel that has begun.
enum Upstream {
    Tcp(TcpStream),
    Http(TokioIo<Upgraded>),
}

/// Copies in both directions until both have ended, one has failed, or nothing has come for `limit`. Returns the
/// bytes that went to the client, and the result.
async fn copy<A, B>(client: A, upstream: B, limit: Duration) -> (u64, io::Result<()>)
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (received, sent) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut client = Counted { inner: client, read: Arc::clone(&sent) };
    let mut upstream = Counted { inner: upstream, read: Arc::clone(&received) };
    let copying = tokio::io::copy_bidirectional(&mut client, &mut upstream);
    let idle = async {
        let mut before = u64::MAX;
        loop {
            let now = received.load(Ordering::Relaxed).wrapping_add(sent.load(Ordering::Relaxed));
            if now == before {
                return;
            }
            before = now;
            tokio::time::sleep(limit).await;
        }
    };
    let result = tokio::select! {
        copied = copying => copied.map(|_| ()),
        () = idle => Err(io::ErrorKind::TimedOut.into()),
    };
    (received.load(Ordering::Relaxed), result)
}

/// A connection that counts the bytes read from it.
struct Counted<T> {
    inner: T,
    read: Arc<AtomicU64>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
        this.read.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}
