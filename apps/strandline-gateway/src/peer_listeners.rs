//! The sockets at which this gateway listens for its peers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::client_socket::ClientSocket;

/// A socket at which this gateway listens for a peer.
#[derive(Debug)]
pub(crate) struct PeerListener {
    /// The word for logs and metrics.
    pub(crate) listener: &'static str,
    pub(crate) listen: SocketAddr,
    pub(crate) peer: Arc<str>,
    pub(crate) socket: PeerSocket,
}

/// What knows whether a socket has failed.
#[derive(Debug)]
pub(crate) enum PeerSocket {
    Tcp(watch::Receiver<bool>),
    Udp(Arc<ClientSocket>),
}

impl PeerListener {
    fn has_failed(&self) -> bool {
        match &self.socket {
            PeerSocket::Tcp(has_failed) => *has_failed.borrow(),
            PeerSocket::Udp(socket) => socket.has_failed(),
        }
    }

    fn to_json(&self) -> Value {
        let mut value = json!({"listener": self.listener, "listen": self.listen, "peer": &*self.peer});
        if self.has_failed() {
            value["failed"] = true.into();
        }
        value
    }
}

/// The sockets at which this gateway listens for its peers, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct PeerListeners(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    next: u64,
    all: BTreeMap<u64, PeerListener>,
}

impl PeerListeners {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one until the returned value is dropped.
    pub(crate) fn add(self: &Arc<Self>, listener: PeerListener) -> PeerListenerGuard {
        let mut held = self.lock();
        let number = held.next;
        held.next += 1;
        held.all.insert(number, listener);
        PeerListenerGuard { listeners: Arc::clone(self), number }
    }

    /// Returns how many accept nothing, because their sockets have failed.
    pub(crate) fn failed(&self) -> usize {
        self.lock().all.values().filter(|listener| listener.has_failed()).count()
    }

    /// Returns all for the status.
    pub(crate) fn status(&self) -> Vec<Value> {
        self.lock().all.values().map(PeerListener::to_json).collect()
    }
}

/// A listener in the list.
#[derive(Debug)]
pub(crate) struct PeerListenerGuard {
    listeners: Arc<PeerListeners>,
    number: u64,
}

impl Drop for PeerListenerGuard {
    fn drop(&mut self) {
        self.listeners.lock().all.remove(&self.number);
    }
}
