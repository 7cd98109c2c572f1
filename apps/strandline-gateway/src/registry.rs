//! The connections that are open, and the counts of those that were: for status, metrics and the access log.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use strandline::SendError;
use strandline_ops::Network;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::access_log::AccessLog;
use crate::clock;
use crate::mapping::{Decision, Route};
use crate::peer_rate::{ClientTurns, Direction, FlowOf, PeerRate};
use crate::protocol::Reason;
use crate::refused_lines::Source;

/// How a connection ended, with the word for logs and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CloseReason {
    /// Both directions were complete.
    Complete,
    /// There was none, for this reason.
    Failed(Reason),
    /// This side's application reset it.
    ResetHere,
    /// The other side reset it.
    ResetThere,
    /// The association ended first.
    Lost,
    /// This side's application, or its host, answered no probe.
    Vanished,
    /// This gateway ended first.
    Cut,
    /// The application said nothing that could be understood.
    Malformed,
    /// A UDP flow that gave way to another one, or was beyond a limit.
    FlowLimit,
}

impl CloseReason {
    /// Returns how a connection ended whose socket here has this error.
    pub(crate) fn of_socket(error: &io::Error) -> Self {
        match error.kind() {
            // The kernel has given up: nothing was answered, or the way to the other end is gone.
            ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
                Self::Vanished
            }
            _ => Self::ResetHere,
        }
    }

    /// Returns how a direct connection ended whose socket to the server has this error.
    pub(crate) fn of_server(error: &io::Error) -> Self {
        match Self::of_socket(error) {
            Self::ResetHere => Self::ResetThere,
            end => end,
        }
    }

    /// Returns how a connection ended whose stream can't be written to for this reason.
    pub(crate) const fn of_send(error: &SendError) -> Self {
        match error {
            SendError::Stopped => Self::ResetThere,
            _ => Self::Lost,
        }
    }

    /// Returns how a UDP flow ended whose end would be this one for a connection. Strangers can cause this; it says
    /// nothing about connections.
    pub(crate) const fn of_flow(self) -> Self {
        match self {
            Self::Failed(Reason::Limit) => Self::FlowLimit,
            end => end,
        }
    }

    /// Returns whether a gateway has refused the connection: whoever asks for connections can cause as many such ends
    /// as they like.
    pub(crate) const fn is_refusal(self) -> bool {
        match self {
            Self::Failed(reason) => reason.is_of_gateway(),
            Self::Malformed | Self::FlowLimit => true,
            Self::Complete | Self::ResetHere | Self::ResetThere => false,
            Self::Lost | Self::Vanished | Self::Cut => false,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Failed(reason) => reason.name(),
            Self::ResetHere => "reset_here",
            Self::ResetThere => "reset_there",
            Self::Lost => "association_lost",
            Self::Vanished => "vanished",
            Self::Cut => Reason::Ending.name(),
            Self::Malformed => "malformed",
            Self::FlowLimit => "flow_limit",
        }
    }
}

/// What is known of a connection when it begins.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionInfo {
    /// The listener, or `onward` for those of a peer.
    pub(crate) listener: &'static str,
    /// The name or address of the peer.
    pub(crate) peer: Arc<str>,
    pub(crate) client: Option<SocketAddr>,
    pub(crate) destination: String,
    /// True if the data of the local TCP connection goes to the peer as it comes: it was accepted here.
    /// Otherwise it was connected onward.
    pub(crate) is_near: bool,
}

/// A connection that is open.
#[derive(Debug)]
pub(crate) struct Entry {
    about: ConnectionInfo,
    begun: Instant,
    /// Bytes from the local TCP connection to the stream, and from the stream to it.
    sent: AtomicU64,
    received: AtomicU64,
    stream: AtomicU64,
    /// Where it goes, and why; `None` where nothing is decided.
    decision: Mutex<Option<Decision>>,
    /// The decision is in the sums.
    is_counted: AtomicBool,
    is_connected: AtomicBool,
    /// The limit of the peer that has asked for the connection.
    rate: OnceLock<(Arc<PeerRate>, Arc<ClientTurns>)>,
}

impl Entry {
    /// Puts the connection under the limit of the peer that has asked for it.
    pub(crate) fn set_rate(&self, rate: Arc<PeerRate>) {
        let turns = rate.turns_of(self.about.client.map(|client| client.ip()));
        // A connection is of one peer.
        let _ = self.rate.set((rate, turns));
    }

    /// Returns whether the peer's bytes per second are limited now.
    pub(crate) fn is_limited(&self) -> bool {
        self.rate.get().is_some_and(|(rate, _)| rate.is_limited())
    }

    /// Waits until the limit of the peer lets bytes pass.
    pub(crate) async fn keep_rate(&self, direction: Direction, bytes: usize) {
        if let Some((rate, turns)) = self.rate.get() {
            rate.wait(turns, direction, bytes).await;
        }
    }

    /// Counts a datagram for the limit of the peer. Returns false if it is beyond the limit.
    pub(crate) fn admits(&self, direction: Direction, bytes: usize) -> bool {
        let flow = match self.about.is_near {
            false => FlowOf::Peer,
            // What has a limit and was accepted here is of a client of the peer's sockets.
            true if self.is_answered() => FlowOf::Client,
            true => FlowOf::Stranger,
        };
        self.rate.get().is_none_or(|(rate, _)| rate.admits(direction, bytes, flow))
    }

    pub(crate) fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn set_stream(&self, stream: u16) {
        self.stream.store(u64::from(stream) + 1, Ordering::Relaxed);
    }

    fn decision(&self) -> MutexGuard<'_, Option<Decision>> {
        self.decision.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how the connection came, for rules.
    pub(crate) fn listener(&self) -> &'static str {
        self.about.listener
    }

    /// Notes that the destination has answered.
    pub(crate) fn set_connected(&self) {
        self.is_connected.store(true, Ordering::Relaxed);
    }

    /// Returns whether anything has come from the other side.
    pub(crate) fn is_answered(&self) -> bool {
        self.received.load(Ordering::Relaxed) > 0
    }

    /// Returns all bytes of both directions.
    pub(crate) fn total(&self) -> u64 {
        let (up, down) = self.bytes();
        up.wrapping_add(down)
    }

    /// Returns whose connection it is.
    fn source(&self) -> Source {
        match self.about.client {
            Some(client) if self.about.is_near => Source::Client(Network::of(client.ip())),
            // What a peer says of its clients is the peer's.
            _ => Source::Peer(Arc::clone(&self.about.peer)),
        }
    }

    /// Returns bytes from client to server, and from server to client.
    fn bytes(&self) -> (u64, u64) {
        let (sent, received) = (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed));
        if self.about.is_near { (sent, received) } else { (received, sent) }
    }

    fn to_json(&self, now: Instant) -> Value {
        let (up, down) = self.bytes();
        let stream = self.stream.load(Ordering::Relaxed).checked_sub(1);
        let decision = *self.decision();
        json!({
            "listener": self.about.listener,
            "peer": &*self.about.peer,
            "client": self.about.client,
            "destination": self.about.destination,
            "stream": stream,
            "direct": decision.is_some_and(|decision| decision.route == Route::Direct),
            "mapping": decision.map(|decision| decision.reason),
            "connected": self.is_connected.load(Ordering::Relaxed),
            "seconds": now.saturating_duration_since(self.begun).as_secs_f64(),
            "bytes_up": up,
            "bytes_down": down,
        })
    }
}

/// Sums since the start of the program.
#[derive(Debug, Default, Clone)]
pub(crate) struct Totals {
    pub(crate) by_listener: HashMap<&'static str, u64>,
    pub(crate) by_end: HashMap<&'static str, u64>,
    /// By the decision and its reason.
    pub(crate) by_mapping: HashMap<(&'static str, &'static str), u64>,
    pub(crate) bytes_up: u64,
    pub(crate) bytes_down: u64,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    open: HashMap<u64, Arc<Entry>>,
    /// What may become a connection.
    coming: usize,
    sums: Totals,
}

impl State {
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.coming == 0
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    state: Mutex<State>,
    log: Option<AccessLog>,
    emptied: Notify,
    is_cut: AtomicBool,
}

impl Registry {
    pub(crate) fn new(log: Option<AccessLog>) -> Self {
        Self { log, ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. It is removed and logged when the returned value is dropped.
    pub(crate) fn begin(self: &Arc<Self>, about: ConnectionInfo) -> ConnectionGuard {
        let listener = about.listener;
        let entry = Arc::new(Entry {
            about,
            begun: clock::now(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            stream: AtomicU64::new(0),
            decision: Mutex::new(None),
            is_counted: AtomicBool::new(false),
            is_connected: AtomicBool::new(false),
            rate: OnceLock::new(),
        });
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        state.open.insert(id, Arc::clone(&entry));
        *state.sums.by_listener.entry(listener).or_default() += 1;
        drop(state);
        ConnectionGuard { registry: Arc::clone(self), id, entry, end: CloseReason::Lost }
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.lock().open.len()
    }

    /// Returns whether a connection of the peer with this very name is open.
    pub(crate) fn has_connections_of(&self, peer: &Arc<str>) -> bool {
        self.lock().open.values().any(|entry| Arc::ptr_eq(&entry.about.peer, peer))
    }

    /// Returns the sums, with what open connections have moved. They never fall.
    pub(crate) fn sums(&self) -> Totals {
        let state = self.lock();
        let mut sums = state.sums.clone();
        for entry in state.open.values() {
            let (up, down) = entry.bytes();
            sums.bytes_up += up;
            sums.bytes_down += down;
        }
        sums
    }

    /// Returns the open connections, the oldest first, at most `limit`.
    pub(crate) fn connections(&self, limit: usize) -> Vec<Value> {
        let mut open: Vec<_> = self.lock().open.iter().map(|(id, entry)| (*id, Arc::clone(entry))).collect();
        open.sort_unstable_by_key(|(id, _)| *id);
        let now = clock::now();
        let to_json = |(id, entry): (u64, Arc<Entry>)| {
            let mut value = entry.to_json(now);
            value["id"] = id.into();
            value
        };
        open.into_iter().take(limit).map(to_json).collect()
    }

    /// Counts what may become a connection, until the returned value is dropped: a client that has not said
    /// yet where it wants to go, or a task that accepts.
    pub(crate) fn coming(self: &Arc<Self>) -> Coming {
        self.lock().coming += 1;
        Coming(Arc::clone(self))
    }

    /// Waits until no connection is open, and none is coming.
    pub(crate) async fn wait_empty(&self) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            emptied.as_mut().enable();
            if self.lock().is_empty() {
                return;
            }
            emptied.await;
        }
    }

    /// Notes that this gateway ends: its associations are lost by that from now on.
    pub(crate) fn set_cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// Opens the access log again.
    pub(crate) fn reopen_log(&self) {
        if let Some(log) = &self.log {
            log.reopen();
        }
    }

    /// Returns how many lines of the access log were lost; `None` if there is none.
    pub(crate) fn lost_lines(&self) -> Option<u64> {
        self.log.as_ref().map(AccessLog::lost)
    }
}

/// What may become a connection, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Coming(Arc<Registry>);

impl Drop for Coming {
    fn drop(&mut self) {
        let is_last = {
            let mut state = self.0.lock();
            state.coming = state.coming.saturating_sub(1);
            state.is_empty()
        };
        if is_last {
            self.0.emptied.notify_waiters();
        }
    }
}

/// A connection in the registry.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    registry: Arc<Registry>,
    id: u64,
    pub(crate) entry: Arc<Entry>,
    end: CloseReason,
}

impl ConnectionGuard {
    /// Notes where the connection goes so far: another route may be found.
    pub(crate) fn set_decision(&self, decision: Decision) {
        *self.entry.decision() = Some(decision);
    }

    /// Counts where the connection goes, once. While that is open, and if no route was found, it does not count.
    pub(crate) fn count_decision(&self) {
        let decision = *self.entry.decision();
        if let Some(Decision { route, reason, .. }) = decision
            && route != Route::Race
            && !self.entry.is_counted.swap(true, Ordering::Relaxed)
        {
            *self.registry.lock().sums.by_mapping.entry((route.name(), reason)).or_default() += 1;
        }
    }

    /// Sets how the connection ended. Without it, it was lost.
    pub(crate) fn set_end(&mut self, end: CloseReason) {
        self.end = end;
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.count_decision();
        if self.end == CloseReason::Lost && self.registry.is_cut.load(Ordering::Relaxed) {
            self.end = CloseReason::Cut;
        }
        let is_last = {
            let mut state = self.registry.lock();
            // As the sums count them, so that these never fall.
            let (up, down) = self.entry.bytes();
            state.open.remove(&self.id);
            *state.sums.by_end.entry(self.end.name()).or_default() += 1;
            state.sums.bytes_up += up;
            state.sums.bytes_down += down;
            state.is_empty()
        };
        if is_last {
            self.registry.emptied.notify_waiters();
        }
        if let Some(log) = &self.registry.log {
            let line = || line(&self.entry, self.end, clock::unix_time());
            if self.end.is_refusal() {
                log.write_refused((self.end.name(), self.entry.source()), line);
            } else {
                log.write(line().to_string());
            }
        }
    }
}

/// Returns the line of the access log for a connection.
fn line(entry: &Entry, end: CloseReason, now: Duration) -> Value {
    let mut value = entry.to_json(clock::now());
    value["time"] = json!(now.as_millis() as f64 / 1000.0);
    value["end"] = json!(end.name());
    value
}

#[cfg(test)]
mod tests;
