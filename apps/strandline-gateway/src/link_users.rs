//! What uses a link: connections, and the sockets from which they come.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;

/// The users of a link.
#[derive(Debug, Default)]
pub(crate) struct LinkUsers {
    /// Connections that use the association, or wait for it.
    connections: AtomicU32,
    /// Sockets whose connections may still come.
    sockets: AtomicU32,
    /// Notified when the last connection ends.
    unused: Notify,
}

/// A connection that uses a link until this value is dropped.
#[derive(Debug)]
pub(crate) struct User(Arc<LinkUsers>);

/// A socket whose connections use a link until this value is dropped.
#[derive(Debug)]
pub(crate) struct SocketUser(Arc<LinkUsers>);

impl LinkUsers {
    /// Counts a connection.
    pub(crate) fn user(self: &Arc<Self>) -> User {
        self.connections.fetch_add(1, Ordering::Relaxed);
        User(Arc::clone(self))
    }

    /// Counts a socket.
    pub(crate) fn socket(self: &Arc<Self>) -> SocketUser {
        self.sockets.fetch_add(1, Ordering::Relaxed);
        SocketUser(Arc::clone(self))
    }

    /// Returns whether a connection uses the link.
    pub(crate) fn has_connections(&self) -> bool {
        self.connections.load(Ordering::Relaxed) > 0
    }

    /// Returns whether a connection uses the link, or may still come.
    pub(crate) fn has_any(&self) -> bool {
        // First: a socket that is counted no longer has counted its connections.
        self.sockets.load(Ordering::Acquire) > 0 || self.has_connections()
    }

    /// Waits until the last connection ends.
    pub(crate) async fn unused(&self) {
        self.unused.notified().await;
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if self.0.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.unused.notify_one();
        }
    }
}

impl Drop for SocketUser {
    fn drop(&mut self) {
        self.0.sockets.fetch_sub(1, Ordering::Release);
    }
}
