//! What one peer may use: connections at the same time, and new ones per second. Peers are told apart by
//! their keys, or by their addresses if they have none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use crate::who::{Unit, Who};

/// Peers that are remembered while they have no connection, so that a new association brings no new burst.
const PEERS_MAX: usize = 4096;

/// Connections of all peers.
#[derive(Debug)]
pub(crate) struct PeerLimits {
    connections_max: AtomicU32,
    connections_per_sec: AtomicU32,
    peers: Mutex<HashMap<Unit, Use>>,
}

#[derive(Debug)]
struct Use {
    open: u32,
    /// Connections that may come at once, at most one second's.
    tokens: f64,
    filled: Instant,
}

/// A connection that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    limits: Arc<PeerLimits>,
    peer: Unit,
}

impl PeerLimits {
    pub(crate) fn new(connections_max: u32, connections_per_sec: u32) -> Self {
        let (connections_max, connections_per_sec) = (connections_max.into(), connections_per_sec.into());
        Self { connections_max, connections_per_sec, peers: Mutex::default() }
    }

    /// Changes the limits. Connections beyond them stay.
    pub(crate) fn set(&self, connections_max: u32, connections_per_sec: u32) {
        self.connections_max.store(connections_max, Ordering::Relaxed);
        self.connections_per_sec.store(connections_per_sec, Ordering::Relaxed);
    }

    /// Counts a connection of a peer; `None` if it is beyond a limit.
    pub(crate) fn take(self: &Arc<Self>, peer: Who, now: Instant) -> Option<Place> {
        let peer = peer.unit();
        let rate = f64::from(self.connections_per_sec.load(Ordering::Relaxed));
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.len() >= PEERS_MAX && !peers.contains_key(&peer) {
            peers.retain(|_, used| used.open > 0);
        }
        let used = peers.entry(peer).or_insert(Use { open: 0, tokens: rate, filled: now });
        let passed = now.saturating_duration_since(used.filled).as_secs_f64();
        used.tokens = (used.tokens + passed * rate).min(rate);
        used.filled = now;
        if used.open >= self.connections_max.load(Ordering::Relaxed) || used.tokens < 1.0 {
            return None;
        }
        used.tokens -= 1.0;
        used.open += 1;
        Some(Place { limits: Arc::clone(self), peer })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut peers = self.limits.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = peers.get_mut(&self.peer) {
            used.open = used.open.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
