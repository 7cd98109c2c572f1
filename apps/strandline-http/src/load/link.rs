//! One connection or association, from the attempt to set it up until it is closed.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use strandline::{Address, Association, Peer, Stack};
use strandline_measure::now;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::failure::{Class, Failure};
use super::stats::Stats;
use crate::client::named;
use crate::streams::{HttpAssociation, HttpStream, Settings};

pub(super) type Http1 = http1::SendRequest<Empty<Bytes>>;
pub(super) type Http2 = http2::SendRequest<Empty<Bytes>>;

/// The server, and how to connect to it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) dial: Dial,
    /// Whether requests share a connection one after another.
    pub(super) keeps_alive: bool,
    /// Time of each stage of a request.
    pub(super) timeout: Option<Duration>,
    pub(super) stats: Arc<Stats>,
}

/// The protocol below HTTP, and its version.
#[derive(Debug)]
pub(super) enum Dial {
    Http1,
    Http2,
    Sctp {
        stack: Stack,
        encapsulation_port: u16,
        /// The host of the URLs, by which an encrypted server's key is looked up.
        host: String,
    },
}

/// Whether an association has been set up.
#[derive(Debug, Clone)]
enum SetUp {
    Pending,
    /// With this number of streams.
    Done(u16),
    Failed(Failure),
}

/// A connection or association. Dropping the last handle closes it.
#[derive(Debug)]
pub(super) struct Link {
    account: Account,
    pub(super) carrier: Carrier,
}

#[derive(Debug)]
pub(super) enum Carrier {
    /// The sender is with the request that uses the connection.
    Http1,
    Http2(Http2),
    Sctp(HttpAssociation, SetUpOf),
}

#[derive(Debug)]
pub(super) struct SetUpOf(watch::Receiver<SetUp>);

impl Link {
    /// Connects over TCP for HTTP/1.1.
    pub(super) async fn http1(server: &Server) -> Result<(Arc<Self>, Http1), Failure> {
        let (account, stream) = connect(server).await?;
        let sender = handshake(stream).await?;
        Ok((Arc::new(Self { account, carrier: Carrier::Http1 }), sender))
    }

    /// Connects over TCP for HTTP/2.
    pub(super) async fn http2(server: &Server) -> Result<Arc<Self>, Failure> {
        let (account, stream) = connect(server).await?;
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|error| Failure::request(&error))?;
        tokio::spawn(connection);
        Ok(Arc::new(Self { account, carrier: Carrier::Http2(sender) }))
    }

    /// Begins to set up an association.
    pub(super) fn sctp(
        server: &Server,
        stack: &Stack,
        encapsulation_port: u16,
        host: &str,
    ) -> Result<Arc<Self>, Failure> {
        let account = Account::new(Arc::clone(&server.stats));
        let address = server.address;
        let peer = Peer::new(Address::of(address), address.port()).encapsulation_port(encapsulation_port);
        let association = match Association::start(stack, named(peer, host), 0, None) {
            Ok(association) => association,
            Err(error) => {
                let failure = Failure::associating(&error);
                server.stats.on_not_connected(&failure);
                return Err(failure);
            }
        };
        let (sender, state) = watch::channel(SetUp::Pending);
        let (stats, begun) = (Arc::clone(&server.stats), account.begun);
        tokio::spawn(watch_set_up(association.clone(), server.timeout, stats, begun, sender));
        let association = HttpAssociation::client(association, settings(server.timeout));
        Ok(Arc::new(Self { account, carrier: Carrier::Sctp(association, SetUpOf(state)) }))
    }

    /// Returns whether requests can still be sent.
    pub(super) fn is_usable(&self) -> bool {
        match &self.carrier {
            Carrier::Http1 => true,
            Carrier::Http2(sender) => !sender.is_closed(),
            Carrier::Sctp(association, _) => association.is_usable(),
        }
    }

    /// Waits until the connection is set up.
    pub(super) async fn connected(&self) -> Result<(), Failure> {
        let Carrier::Sctp(_, SetUpOf(state)) = &self.carrier else { return Ok(()) };
        let mut state = state.clone();
        match state.wait_for(|state| !matches!(state, SetUp::Pending)).await.as_deref() {
            Ok(SetUp::Failed(failure)) => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    /// Returns the number of streams of an association that is set up.
    pub(super) fn streams(&self) -> Option<u16> {
        match &self.carrier {
            Carrier::Sctp(_, SetUpOf(state)) => match *state.borrow() {
                SetUp::Done(streams) => Some(streams),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn on_reply(&self) {
        self.account.replies.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the settings of associations. Requests fail by their own limit of time, as they do over TCP: an association
/// whose peer is silent isn't ended before that.
fn settings(timeout: Option<Duration>) -> Settings {
    let settings = Settings::default().stream_window(4 << 20).buffer_max(64 << 20);
    let silence = timeout.map_or(Duration::MAX, |timeout| timeout.max(settings.silence_timeout));
    settings.silence_timeout(silence)
}

/// Speaks HTTP/1.1 on a stream of an association.
pub(super) async fn on_stream(stream: HttpStream) -> Result<Http1, Failure> {
    handshake(stream).await
}

async fn handshake<S>(stream: S) -> Result<Http1, Failure>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|error| Failure::request(&error))?;
    // Its errors are those of requests, too.
    tokio::spawn(connection);
    Ok(sender)
}

async fn connect(server: &Server) -> Result<(Account, TcpStream), Failure> {
    let account = Account::new(Arc::clone(&server.stats));
    let failure = match limited(server.timeout, TcpStream::connect(server.address)).await {
        Some(Ok(stream)) => {
            // Without it the stream works, too.
            let _ = stream.set_nodelay(true);
            server.stats.on_connected(account.begun);
            return Ok((account, stream));
        }
        Some(Err(error)) => Failure::connecting(&error),
        None => Failure { is_counted: true, ..Failure::timeout() },
    };
    server.stats.on_not_connected(&failure);
    Err(failure)
}

/// Counts the set-up of an association, and aborts one that takes too long.
async fn watch_set_up(
    association: Association,
    limit: Option<Duration>,
    stats: Arc<Stats>,
    begun: Instant,
    sender: watch::Sender<SetUp>,
) {
    let failure = match limited(limit, association.established()).await {
        Some(Ok(())) => {
            stats.on_connected(begun);
            let streams =
                association.status().map(|status| status.outbound_streams.min(status.inbound_streams));
            sender.send_replace(SetUp::Done(streams.unwrap_or(1)));
            return;
        }
        Some(Err(error)) => Failure::associating(&error),
        None => Failure { is_counted: true, ..Failure::timeout() },
    };
    stats.on_not_connected(&failure);
    let is_late = failure.class == Class::ClientTimeout;
    sender.send_replace(SetUp::Failed(failure));
    if is_late {
        association.abort("--timeout passed");
    }
}

/// Waits for a future at most so long; `None` if the time has passed.
pub(super) async fn limited<F: Future>(limit: Option<Duration>, future: F) -> Option<F::Output> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}

/// Counts a connection from the attempt until it is closed.
#[derive(Debug)]
struct Account {
    begun: Instant,
    replies: AtomicU64,
    stats: Arc<Stats>,
}

impl Account {
    fn new(stats: Arc<Stats>) -> Self {
        stats.on_connecting();
        Self { begun: now(), replies: AtomicU64::new(0), stats }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.stats.on_closed(self.begun, self.replies.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests;
