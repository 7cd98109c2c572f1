//! Bytes in both directions after CONNECT or an upgrade.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

use crate::front::Breakable;
use crate::front::log::Line;
use crate::stall::{Broken, Unfinished};

/// The far side of a tunnel.
pub(super) enum Side {
    /// A connection of the proxy.
    Tcp(TcpStream),
    /// A connection of HTTP that becomes a tunnel, and what lets it end by a reset.
    Http(OnUpgrade, Option<Broken>),
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

/// The tunnels of a proxy.
#[derive(Debug, Default)]
pub(super) struct Tunnels(Mutex<JoinSet<()>>);

impl Tunnels {
    /// Runs a tunnel in the background.
    pub(super) fn begin(&self, tunnel: Tunnel) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while running.try_join_next().is_some() {}
        running.spawn(run(tunnel));
    }

    /// Resets all tunnels.
    pub(super) async fn cut(&self) {
        let mut running = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        running.shutdown().await;
    }
}

/// Runs a tunnel. Both sides are reset unless both have ended.
async fn run(tunnel: Tunnel) {
    let Tunnel { client, upstream, limit, broken: client_broken, mut line, permit } = tunnel;
    let upstream_broken = match &upstream {
        Side::Tcp(_) => Some(Broken::default()),
        Side::Http(_, broken) => broken.clone(),
    };
    let of_tcp = upstream_broken.clone().unwrap_or_default();
    let guards = [client_broken, upstream_broken];
    let not_begun = guards.each_ref().map(unless_done);
    let upgraded = tokio::try_join!(client, async {
        Ok(match upstream {
            Side::Tcp(tcp) => Upstream::Tcp(Breakable::new(tcp, of_tcp)),
            Side::Http(upgrading, _) => Upstream::Http(TokioIo::new(upgrading.await?)),
        })
    });
    let (client, upstream) = match upgraded {
        Ok((client, upstream)) => (TokioIo::new(client), upstream),
        Err(error) => {
            tracing::debug!(%error, "a tunnel did not begin");
            return;
        }
    };
    let (mut client, mut upstream) = (client, upstream);
    // Dropped before the connections.
    let unfinished = guards.each_ref().map(unless_done);
    not_begun.into_iter().flatten().for_each(Unfinished::done);
    let (received, result) = match &mut upstream {
        Upstream::Tcp(tcp) => copy(&mut client, tcp, limit).await,
        Upstream::Http(http) => copy(&mut client, http, limit).await,
    };
    if let Some(line) = &mut line {
        line.add_bytes(received);
        if result.is_ok() {
            line.set_complete();
        }
    }
    match result {
        Ok(()) => unfinished.into_iter().flatten().for_each(Unfinished::done),
        Err(error) => {
            tracing::debug!(%error, "a tunnel failed");
            drop(unfinished);
        }
    }
    drop((client, upstream, permit));
}

fn unless_done(broken: &Option<Broken>) -> Option<Unfinished> {
    broken.as_ref().map(Broken::unless_done)
}

/// The far side of a tunnel that has begun.
enum Upstream {
    Tcp(Breakable<TcpStream>),
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
