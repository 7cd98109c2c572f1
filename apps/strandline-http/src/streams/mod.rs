//! HTTP connections on the streams of an association.

mod budget;
mod connection;
mod stream;
mod table;
mod tasks;
mod watch;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strandline::{Association, Ended, StreamId, StreamScheduler};
use tokio::sync::Notify;
use tokio::time::Instant;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::table::{Arrived, Reading};
pub(crate) use self::table::{ConnectionId, Role, Table};
use crate::control::{Label, WINDOW_EXPONENT_MAX, WINDOW_EXPONENT_MIN};

pub use self::budget::Budget;
pub use self::stream::HttpStream;

/// Window of a connection that begins, in bytes; less if [`Settings::stream_window`] is.
const WINDOW_START: u64 = 64 << 10;

/// Settings of the HTTP connections of an association.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Bytes that a peer with control messages sends on a stream before they are read, at most: a power of two from 4
    /// KiB to 1 GiB, others are rounded down. A stream carries at most this many bytes in a round trip. Each
    /// connection begins with 64 KiB, which grow as they are read while all windows together are within half of
    /// [`buffer_max`](Self::buffer_max). Default: 1 MiB.
    pub stream_window: u32,
    /// Bytes that all streams together hold for their readers. Beyond that the association's receive window
    /// closes. Default: 16 MiB.
    pub buffer_max: usize,
    /// Time after which a connection is reset if its data waits to be read while `buffer_max` or the bytes of `budget`
    /// are used up, so that other connections can't go on. Default: 10 s.
    pub stall_timeout: Duration,
    /// Limits of all associations together.
    pub budget: Budget,
    /// Client: time after which an association is aborted whose peer sends nothing, not even answers to HEARTBEATs. No
    /// connection is opened on it after less than half of that. [`Duration::MAX`] leaves it to the parameters of the
    /// association. Default: 10 s.
    pub silence_timeout: Duration,
    /// Server: connections that are open at the same time. Further ones are reset. Default: 1,024.
    pub connections_max: usize,
    /// Time after which an association without connections is shut down. Default: 240 s, and 300 s in
    /// [`ServeOptions`](crate::ServeOptions): a client that closes first never sends a request in vain.
    pub idle_timeout: Duration,
    /// Time after which the association is aborted if a control message, or what is left to send in a shutdown, waits
    /// for a peer that takes nothing. Default: 60 s.
    pub control_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            stream_window: 1 << 20,
            buffer_max: 16 << 20,
            stall_timeout: Duration::from_secs(10),
            budget: Budget::default(),
            silence_timeout: Duration::from_secs(10),
            connections_max: 1024,
            idle_timeout: Duration::from_secs(240),
            control_timeout: Duration::from_secs(60),
        }
    }
}

impl Settings {
    /// Sets [`stream_window`](Self::stream_window).
    #[must_use]
    pub fn stream_window(mut self, bytes: u32) -> Self {
        self.stream_window = bytes;
        self
    }

    /// Sets [`buffer_max`](Self::buffer_max).
    #[must_use]
    pub fn buffer_max(mut self, bytes: usize) -> Self {
        self.buffer_max = bytes;
        self
    }

    /// Sets [`stall_timeout`](Self::stall_timeout).
    #[must_use]
    pub fn stall_timeout(mut self, limit: Duration) -> Self {
        self.stall_timeout = limit;
        self
    }

    /// Sets [`budget`](Self::budget).
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets [`silence_timeout`](Self::silence_timeout).
    #[must_use]
    pub fn silence_timeout(mut self, limit: Duration) -> Self {
        self.silence_timeout = limit;
        self
    }

    /// Sets [`connections_max`](Self::connections_max).
    #[must_use]
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.connections_max = connections;
        self
    }

    /// Sets [`idle_timeout`](Self::idle_timeout).
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle_timeout = limit;
        self
    }

    /// Sets [`control_timeout`](Self::control_timeout).
    #[must_use]
    pub fn control_timeout(mut self, limit: Duration) -> Self {
        self.control_timeout = limit;
        self
    }

    fn window(&self) -> u64 {
        1 << self.stream_window.checked_ilog2().unwrap_or(0).clamp(WINDOW_EXPONENT_MIN, WINDOW_EXPONENT_MAX)
    }

    /// Returns the window of a connection that begins: a power of two.
    fn window_start(&self) -> u64 {
        self.window().min(WINDOW_START)
    }

    pub(crate) fn label(&self, is_control: bool) -> Label {
        Label { is_control, window_exponent: self.window_start().ilog2() }
    }
}

/// Why no connection can be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The association has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The association is shutting down.
    #[error("the association is shutting down")]
    ShuttingDown,
    /// Every stream has had a connection, and the peer doesn't know control messages, which would let streams
    /// be used again.
    #[error("every stream has been used, and the peer can't use one again")]
    StreamsUsedUp,
}

/// HTTP connections on the streams of one association. Clones are handles to the same association.
///
/// Once all handles and all [`HttpStream`]s are dropped, the association shuts down in the background; also once it
/// has had no connection for [`Settings::idle_timeout`].
///
/// ```
/// use strandline::{Association, Listener, Peer, Stack};
/// use strandline_http::{HttpAssociation, Settings};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// # use strandline::memory::Network;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
/// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
/// let listener = Listener::bind(&there, 80)?;
/// // The first request leaves with the COOKIE ECHO, which saves a round trip.
/// let association = Association::start(&here, Peer::new([10, 0, 0, 2], 80), 0, None)?;
/// let client = HttpAssociation::client(association, Settings::default());
/// let mut request = client.open().await?;
/// request.write_all(b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n").await?;
/// request.shutdown().await?;
///
/// let server = HttpAssociation::server(listener.accept().await?, Settings::default());
/// let mut accepted = server.accept().await.ok_or("the association ended")?;
/// let mut text = String::new();
/// accepted.read_to_string(&mut text).await?; // up to the end of the connection, not of the association
/// assert!(text.starts_with("GET / "));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct HttpAssociation {
    owner: Arc<Owner>,
}

/// The state that handles, streams and tasks share.
#[derive(Debug)]
pub(crate) struct Shared {
    association: Association,
    /// When this was created.
    begun: Instant,
    settings: Settings,
    table: Mutex<Table>,
    /// Notified when a control message is queued, or everything is over.
    controls: Notify,
    /// Notified when messages have been read while the table was full.
    drained: Notify,
    /// Notified when a stream may have become free, or a connection was accepted, or the association ended.
    changed: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a function on the table, wakes tasks, and lets the control task work.
    fn with<T>(&self, run: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.lock();
        let result = run(&mut table);
        let (wakers, has_controls, is_full) = (table.take_wakers(), table.has_controls(), table.is_full());
        drop(table);
        wakers.into_iter().for_each(std::task::Waker::wake);
        if has_controls {
            self.controls.notify_one();
        }
        if !is_full {
            self.drained.notify_one();
        }
        result
    }
}

/// Held by every handle and stream. The association shuts down when it is dropped.
#[derive(Debug)]
pub(crate) struct Owner {
    shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.with(Table::close);
        // Control messages that are still queued go first.
        self.shared.controls.notify_one();
    }
}

impl HttpAssociation {
    /// Opens connections on the streams of an association. An association that isn't established yet gets one
    /// connection; further ones wait until it is.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    #[must_use]
    pub fn client(association: Association, settings: Settings) -> Self {
        Self::new(association, settings, Role::Client)
    }

    /// Accepts connections on the streams of an association.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    #[must_use]
    pub fn server(association: Association, settings: Settings) -> Self {
        Self::new(association, settings, Role::Server)
    }

    fn new(association: Association, settings: Settings, role: Role) -> Self {
        // A short response doesn't wait for all that others have written.
        association.control().set_stream_scheduler(StreamScheduler::RoundRobin);
        let table = Mutex::new(Table::new(role, settings.clone()));
        let (controls, drained, changed) = (Notify::new(), Notify::new(), Notify::new());
        #[allow(clippy::disallowed_methods, reason = "time-outs of the network")]
        let begun = Instant::now();
        let shared = Arc::new(Shared { association, begun, settings, table, controls, drained, changed });
        tasks::start(&shared, role);
        Self { owner: Arc::new(Owner { shared }) }
    }

    /// Opens a connection on a free stream. Waits while there is none.
    ///
    /// # Errors
    /// If the association has ended or no stream will become free.
    ///
    /// # Cancel safety
    /// Dropping the future opens no connection.
    pub async fn open(&self) -> Result<HttpStream, ConnectionError> {
        loop {
            let changed = self.shared().changed.notified();
            {
                let mut table = self.shared().lock();
                if let Some(ended) = &table.ended {
                    return Err(ended.clone().into());
                }
                if table.is_closing {
                    return Err(ConnectionError::ShuttingDown);
                }
                if table.is_used_up() {
                    return Err(ConnectionError::StreamsUsedUp);
                }
                if let Some((id, stream)) = table.open() {
                    drop(table);
                    return self.stream(id, stream);
                }
            }
            changed.await;
        }
    }

    /// Accepts the next connection that the peer has opened; `None` once the association has ended or
    /// [`shutdown`](Self::shutdown) was called.
    ///
    /// # Cancel safety
    /// Dropping the future loses no connection.
    pub async fn accept(&self) -> Option<HttpStream> {
        loop {
            let changed = self.shared().changed.notified();
            {
                let mut table = self.shared().lock();
                if let Some((id, stream)) = table.accept() {
                    drop(table);
                    match self.stream(id, stream) {
                        Ok(stream) => return Some(stream),
                        Err(_) => continue,
                    }
                }
                if table.ended.is_some() || table.is_closing {
                    return None;
                }
            }
            changed.await;
        }
    }

    fn stream(&self, id: ConnectionId, stream: u16) -> Result<HttpStream, ConnectionError> {
        match self.shared().association.open_send(StreamId(stream)) {
            Ok(send) => Ok(HttpStream::new(Arc::clone(&self.owner), id, send)),
            Err(_) => {
                self.shared().with(|table| table.drop_handle(id));
                Err(ConnectionError::ShuttingDown)
            }
        }
    }

    fn shared(&self) -> &Shared {
        &self.owner.shared
    }

    /// Returns the association.
    #[must_use]
    pub fn association(&self) -> &Association {
        &self.shared().association
    }

    /// Returns the peer's primary address: its IP address and encapsulation port. `None` once the association
    /// is gone.
    #[must_use]
    pub fn peer_address(&self) -> Option<SocketAddr> {
        let paths = self.association().paths();
        paths.iter().find(|path| path.primary).or(paths.first()).map(|path| path.address)
    }

    /// Returns whether connections can still be opened, and the peer is not silent although HEARTBEATs ask for an
    /// answer ([`Settings::silence_timeout`]).
    #[must_use]
    pub fn is_usable(&self) -> bool {
        let table = self.shared().lock();
        table.ended.is_none() && !table.is_closing && !table.is_used_up() && !table.is_suspect
    }

    /// Waits until the association is established.
    ///
    /// # Errors
    /// If the peer refuses or doesn't answer.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn established(&self) -> Result<(), strandline::ConnectError> {
        self.association().established().await
    }

    /// Takes no more connections, waits until those that exist are closed, and shuts the association down.
    ///
    /// # Cancel safety
    /// The shutdown goes on when the future is dropped, once all handles are gone.
    pub async fn shutdown(&self) -> Ended {
        self.shared().with(Table::close);
        self.shared().changed.notify_waiters();
        self.shared().controls.notify_one();
        self.association().closed().await
    }
}
