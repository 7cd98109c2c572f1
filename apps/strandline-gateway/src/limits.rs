//! What one peer may use: associations and connections at the same time, and new connections and bytes per second.
//! Peers are told apart by their keys, or by their addresses if they have none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::config::{self, Limits};
use crate::flow_limit::{FlowLimit, FlowPermit, FlowsMax};
use crate::lookups::{Lookups, OF_ALL_MAX, OF_ONE_MAX};
use crate::peer_identity::{LimitKey, PeerIdentity};
use crate::peer_rate::PeerRate;

/// Peers that are remembered while they have no connection, so that a new association brings no new burst.
const PEERS_MAX: usize = 4096;

/// Connections of all peers.
#[derive(Debug)]
pub(crate) struct PeerLimits {
    associations_max: AtomicU32,
    connections_max: AtomicU32,
    connections_per_sec: AtomicU32,
    bytes_per_sec: watch::Sender<u64>,
    peers: Mutex<HashMap<LimitKey, Usage>>,
    /// Associations that were refused.
    refused: AtomicU64,
    /// Room for look-ups of names, of all peers.
    lookups: Arc<Semaphore>,
}

#[derive(Debug)]
struct Usage {
    associations: u32,
    open: u32,
    /// Connections that may come at once, at most one second's.
    tokens: f64,
    filled: Instant,
    rate: Arc<PeerRate>,
    /// UDP flows that the peer has opened, and those of clients of its sockets here.
    onward: Arc<FlowLimit>,
    arriving: Arc<FlowLimit>,
    /// Room for look-ups of names.
    lookups: Arc<Semaphore>,
}

/// A connection, or a UDP flow, that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    limits: Arc<PeerLimits>,
    peer: LimitKey,
    /// Of a flow, which is no connection.
    flow: Option<FlowPermit>,
}

/// An association that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Joined {
    limits: Arc<PeerLimits>,
    peer: LimitKey,
}

impl PeerLimits {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            associations_max: limits.associations_max.into(),
            connections_max: limits.connections_max.into(),
            connections_per_sec: limits.connections_per_sec.into(),
            bytes_per_sec: watch::Sender::new(limits.bytes_per_sec),
            peers: Mutex::default(),
            refused: AtomicU64::new(0),
            lookups: Arc::new(Semaphore::new(OF_ALL_MAX)),
        }
    }

    /// Changes the limits. Associations and connections beyond them stay.
    pub(crate) fn set(&self, limits: &Limits) {
        self.associations_max.store(limits.associations_max, Ordering::Relaxed);
        self.connections_max.store(limits.connections_max, Ordering::Relaxed);
        self.connections_per_sec.store(limits.connections_per_sec, Ordering::Relaxed);
        self.bytes_per_sec.send_replace(limits.bytes_per_sec);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LimitKey, Usage>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an association that a peer has set up.
    ///
    /// # Errors
    /// The limit, if the peer has as many: this one is refused, and counted as such.
    pub(crate) fn join(self: &Arc<Self>, peer: PeerIdentity, now: Instant) -> Result<Joined, u32> {
        let (peer, most) = (peer.unit(), self.associations_max.load(Ordering::Relaxed));
        let mut peers = self.lock();
        let used = self.used(&mut peers, peer, now);
        if used.associations >= most {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(most);
        }
        used.associations += 1;
        Ok(Joined { limits: Arc::clone(self), peer })
    }

    /// Returns how many associations were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns what a peer uses. Makes room for it by forgetting those that use nothing.
    fn used<'a>(
        &self,
        peers: &'a mut HashMap<LimitKey, Usage>,
        peer: LimitKey,
        now: Instant,
    ) -> &'a mut Usage {
        if peers.len() >= PEERS_MAX && !peers.contains_key(&peer) {
            peers.retain(|_, used| {
                let looks_up = used.lookups.available_permits() < OF_ONE_MAX;
                let has_flows = used.onward.is_used() || used.arriving.is_used();
                used.open > 0 || used.associations > 0 || looks_up || has_flows
            });
        }
        let tokens = f64::from(self.connections_per_sec.load(Ordering::Relaxed));
        peers.entry(peer).or_insert_with(|| Usage {
            associations: 0,
            open: 0,
            tokens,
            filled: now,
            rate: Arc::new(PeerRate::new(self.bytes_per_sec.subscribe())),
            onward: Arc::default(),
            arriving: Arc::default(),
            lookups: Arc::new(Semaphore::new(OF_ONE_MAX)),
        })
    }

    /// Returns permission for look-ups of names that a peer or client causes.
    pub(crate) fn lookups(&self, who: PeerIdentity, now: Instant) -> Lookups {
        let of_one = Arc::clone(&self.used(&mut self.lock(), who.unit(), now).lookups);
        Lookups::new(of_one, Arc::clone(&self.lookups))
    }

    /// Returns the limits of UDP flows.
    pub(crate) fn flows_max(&self) -> FlowsMax {
        let [open, per_sec] =
            [&self.connections_max, &self.connections_per_sec].map(|limit| limit.load(Ordering::Relaxed));
        config::flows_max(open, per_sec)
    }

    /// Returns the flows of clients of a peer's UDP sockets here.
    pub(crate) fn arriving_flows(&self, peer: PeerIdentity, now: Instant) -> Arc<FlowLimit> {
        Arc::clone(&self.used(&mut self.lock(), peer.unit(), now).arriving)
    }

    /// Counts a UDP flow that a peer has opened; `None` if it is beyond a limit of flows.
    pub(crate) fn take_flow(self: &Arc<Self>, peer: PeerIdentity, now: Instant) -> Option<Permit> {
        let peer = peer.unit();
        let flows = Arc::clone(&self.used(&mut self.lock(), peer, now).onward);
        let most = self.flows_max();
        let flow = flows.take(most).filter(|_| flows.may_come(most, now))?;
        Some(Permit { limits: Arc::clone(self), peer, flow: Some(flow) })
    }

    /// Returns what limits the bytes of a peer's connections.
    pub(crate) fn rate(&self, who: PeerIdentity, now: Instant) -> Arc<PeerRate> {
        Arc::clone(&self.used(&mut self.lock(), who.unit(), now).rate)
    }

    /// Counts a connection of a peer; `None` if it is beyond a limit.
    pub(crate) fn take(self: &Arc<Self>, peer: PeerIdentity, now: Instant) -> Option<Permit> {
        let peer = peer.unit();
        let rate = f64::from(self.connections_per_sec.load(Ordering::Relaxed));
        let mut peers = self.lock();
        let used = self.used(&mut peers, peer, now);
        let passed = now.saturating_duration_since(used.filled).as_secs_f64();
        used.tokens = (used.tokens + passed * rate).min(rate);
        used.filled = now;
        if used.open >= self.connections_max.load(Ordering::Relaxed) || used.tokens < 1.0 {
            return None;
        }
        used.tokens -= 1.0;
        used.open += 1;
        Some(Permit { limits: Arc::clone(self), peer, flow: None })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.flow.is_some() {
            return;
        }
        if let Some(used) = self.limits.lock().get_mut(&self.peer) {
            used.open = used.open.saturating_sub(1);
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if let Some(used) = self.limits.lock().get_mut(&self.peer) {
            used.associations = used.associations.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
