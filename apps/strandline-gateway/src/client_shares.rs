//! Connections of clients with one peer, so that one client does not take all that the peer admits: a client
//! may have seven times as many connections as are left for all, and open as many of those that may come in a
//! second. Alone it gets seven eighths; others always find room.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strandline_ops::Network;
use tokio::time::Instant;

use crate::config::Limits;
use crate::recent::Recent;

/// How much of what is left a client may have.
const SHARE: u32 = 7;
/// Clients that are remembered while they have no connection.
const CLIENTS_MAX: usize = 4096;

/// The connections of all clients with a peer.
#[derive(Debug, Default)]
pub(crate) struct ClientShares(Mutex<Usage>);

#[derive(Debug, Default)]
struct Usage {
    open: u32,
    /// Connections that came lately.
    recent: Recent,
    clients: HashMap<Network, Client>,
}

#[derive(Debug, Default)]
struct Client {
    open: u32,
    recent: Recent,
}

/// A connection of a client that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct ClientPermit {
    shares: Arc<ClientShares>,
    client: Network,
}

impl ClientShares {
    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection of a client; `None` if it has its share.
    pub(crate) fn take(
        self: &Arc<Self>,
        client: IpAddr,
        limits: &Limits,
        now: Instant,
    ) -> Option<ClientPermit> {
        let address = Network::of(client);
        let mut usage = self.lock();
        let Usage { open, recent, clients } = &mut *usage;
        if clients.len() >= CLIENTS_MAX && !clients.contains_key(&address) {
            clients.retain(|_, client| client.open > 0 || client.recent.count(now) >= 1.0);
        }
        let client = clients.entry(address).or_default();
        let free = limits.connections_max.saturating_sub(*open);
        let free_rate = f64::from(limits.connections_per_sec) - recent.count(now);
        let own_rate = client.recent.count(now);
        let fits = free > 0 && client.open < free.saturating_mul(SHARE);
        if !fits || free_rate < 1.0 || own_rate >= free_rate * f64::from(SHARE) {
            return None;
        }
        *open += 1;
        recent.add();
        client.open += 1;
        client.recent.add();
        Some(ClientPermit { shares: Arc::clone(self), client: address })
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        let mut usage = self.shares.lock();
        usage.open = usage.open.saturating_sub(1);
        if let Some(client) = usage.clients.get_mut(&self.client) {
            client.open = client.open.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
