//! Programs of `strandline run`, whose `connect` was replaced by crates/strandline-preload.
//!
//! A program's connection comes with a request and padding, for which the receive window has no room: so its socket is not
//! writable, as one that is not connected, until this side opens the window. A connection that fails is reset, and the reason
//! is kept for the program's question.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use strandline_ops::open_window;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::REQUEST_TIMEOUT;
use super::near::{Answered, Near};
use crate::clock::now;
use crate::preload_request::{Outcome, REQUEST, Request, answer, parse};
use crate::protocol::Destination;
use crate::registry::End;
use crate::relay::{prepare, reason};

/// Time for which the reason of a failure is kept.
const KEPT: Duration = Duration::from_secs(30);
/// Failures that are kept.
const KEPT_MAX: usize = 4096;

/// Serves a program.
pub(super) async fn serve(mut tcp: TcpStream, near: Near, early_reply: bool, sockets: Arc<Sockets>) {
    let mut bytes = [0; REQUEST];
    let Ok(Ok(_)) = timeout(REQUEST_TIMEOUT, tcp.read_exact(&mut bytes)).await else { return };
    let client = near.client.ip();
    match parse(&bytes) {
        Some(Request::Connect { to, cookie, padding }) => {
            let listed = sockets.begin((client, cookie), to);
            connect(tcp, near, to, padding, early_reply, listed).await;
        }
        Some(Request::Ask { cookie }) => {
            // A client that has gone needs no answer.
            let _ = tcp.write_all(&sockets.answer((client, cookie))).await;
        }
        None => tracing::debug!(client = %near.client, "not a connection of `strandline run`"),
    }
}

async fn connect(
    mut tcp: TcpStream,
    near: Near,
    to: SocketAddr,
    padding: usize,
    early_reply: bool,
    listed: Listed,
) {
    let to = Destination::of(to);
    let mut tracked = near.track("preload", &to);
    let user = near.link.user();
    // From here on a failure is a reset.
    if prepare(&tcp).is_err() || (early_reply && open(&mut tcp, padding).await.is_err()) {
        return tracked.set_end(End::ResetHere);
    }
    let arrived = early_reply.then_some(&tcp);
    let started = near.start(&to, arrived, Bytes::new(), &tracked).await;
    let mut result = started.map(Answered::not_yet).map_err(End::Failed);
    if !early_reply && let Ok(answered) = result {
        result = answered.answer().await;
    }
    match result {
        Ok(answered) => {
            listed.set(Outcome::Connected);
            if !early_reply && open(&mut tcp, padding).await.is_err() {
                return tracked.set_end(End::ResetHere);
            }
            near.carry(tcp, answered, tracked, (user, listed)).await;
        }
        Err(end) => {
            // Known before the program can ask.
            listed.set(Outcome::Failed(reason(end)));
            tracked.set_end(end);
        }
    }
}

/// Opens the receive window, and reads the padding. The program finds its socket connected.
async fn open(tcp: &mut TcpStream, mut padding: usize) -> io::Result<()> {
    open_window(tcp)?;
    let reading = async {
        let mut room = [0; 4096];
        while padding > 0 {
            let part = room.get_mut(..padding.min(4096)).unwrap_or_default();
            match tcp.read(part).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => padding -= read,
            }
        }
        Ok(())
    };
    timeout(REQUEST_TIMEOUT, reading).await?
}

/// A socket: the host that it is of, and its cookie.
type Key = (IpAddr, u64);

/// Sockets of programs, and what became of their connections.
#[derive(Debug, Default)]
pub(super) struct Sockets(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sockets: HashMap<Key, Socket>,
    /// Those that failed, the oldest first, and when they are forgotten.
    failed: VecDeque<(Instant, Key, u64)>,
    next: u64,
}

#[derive(Debug)]
struct Socket {
    to: SocketAddr,
    outcome: Outcome,
    /// Of the latest connection: a socket may be used again.
    number: u64,
}

impl Sockets {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection.
    fn begin(self: &Arc<Self>, key: Key, to: SocketAddr) -> Listed {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.sockets.insert(key, Socket { to, outcome: Outcome::Pending, number });
        Listed { sockets: Arc::clone(self), key, number }
    }

    fn answer(&self, key: Key) -> Vec<u8> {
        match self.lock().sockets.get(&key) {
            Some(socket) => answer(Some(socket.to), socket.outcome),
            None => answer(None, Outcome::Unknown),
        }
    }
}

impl State {
    fn remove(&mut self, key: Key, number: u64) {
        if self.sockets.get(&key).is_some_and(|socket| socket.number == number) {
            self.sockets.remove(&key);
        }
    }

    /// Keeps a failure for a while, and forgets others whose time is over, or that are too many.
    fn keep(&mut self, key: Key, number: u64, now: Instant) {
        self.failed.push_back((now + KEPT, key, number));
        while let Some((until, key, number)) = self.failed.front().copied() {
            if until > now && self.failed.len() <= KEPT_MAX {
                break;
            }
            self.failed.pop_front();
            self.remove(key, number);
        }
    }
}

/// A connection in the list until this value is dropped, and for a while longer if it failed.
struct Listed {
    sockets: Arc<Sockets>,
    key: Key,
    number: u64,
}

impl Listed {
    fn set(&self, outcome: Outcome) {
        let mut state = self.sockets.lock();
        if let Some(socket) = state.sockets.get_mut(&self.key).filter(|socket| socket.number == self.number) {
            socket.outcome = outcome;
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut state = self.sockets.lock();
        let found = state.sockets.get(&self.key).filter(|socket| socket.number == self.number);
        match found.map(|socket| socket.outcome) {
            Some(Outcome::Failed(_)) => state.keep(self.key, self.number, now()),
            Some(_) => state.remove(self.key, self.number),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
