//! Sockets of programs of `strandline run`, and what became of their connections. No I/O.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::now;
use crate::preload_request::{Outcome, answer};

/// Time for which the reason of a failure is kept.
const KEPT: Duration = Duration::from_secs(30);
/// Failures that are kept.
const KEPT_MAX: usize = 4096;

/// The name of a socket: its host's address, and its SO_COOKIE XOR the secret of `strandline run`.
pub(crate) type Key = (IpAddr, u64);

/// Sockets of programs, and what became of their connections.
#[derive(Debug, Default)]
pub(crate) struct Sockets(Mutex<State>);

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
    pub(crate) fn begin(self: &Arc<Self>, key: Key, to: SocketAddr) -> SocketEntry {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.sockets.insert(key, Socket { to, outcome: Outcome::Pending, number });
        SocketEntry { sockets: Arc::clone(self), key, number }
    }

    /// Returns the answer to a program's question.
    pub(crate) fn answer(&self, key: Key) -> Vec<u8> {
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
#[derive(Debug)]
pub(crate) struct SocketEntry {
    sockets: Arc<Sockets>,
    key: Key,
    number: u64,
}

impl SocketEntry {
    /// Notes what became of the connection.
    pub(crate) fn set(&self, outcome: Outcome) {
        let mut state = self.sockets.lock();
        if let Some(socket) = state.sockets.get_mut(&self.key).filter(|socket| socket.number == self.number) {
            socket.outcome = outcome;
        }
    }
}

impl Drop for SocketEntry {
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
