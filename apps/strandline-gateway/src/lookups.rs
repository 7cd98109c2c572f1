//! Look-ups of names for peers and clients. One lasts as long as a name server is silent, and can't be ended:
//! as many threads are busy with them at most, of each peer and of all, and a connection that waits for its
//! turn leaves when its time is over.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Look-ups of one peer at the same time.
pub(crate) const OF_ONE_MAX: usize = 32;
/// Look-ups of all: half of the threads that a runtime has for what blocks.
pub(crate) const OF_ALL_MAX: usize = 256;
/// Addresses of a name that are returned.
const ADDRESSES_MAX: usize = 8;

/// Permission for look-ups, within the limits of a peer and of all.
#[derive(Debug, Clone)]
pub(crate) struct Lookups {
    of_one: Arc<Semaphore>,
    of_all: Arc<Semaphore>,
}

impl Lookups {
    pub(crate) const fn new(of_one: Arc<Semaphore>, of_all: Arc<Semaphore>) -> Self {
        Self { of_one, of_all }
    }

    /// Returns the first addresses of a name.
    ///
    /// # Errors
    /// If it has none, or can't be resolved.
    pub(crate) async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        // In this order: what waits for others of its peer keeps nobody else from a thread.
        let one = Arc::clone(&self.of_one).acquire_owned().await.map_err(io::Error::other)?;
        let any = Arc::clone(&self.of_all).acquire_owned().await.map_err(io::Error::other)?;
        let name = name.to_owned();
        let looking = spawn_blocking(move || {
            let found = (&*name, port).to_socket_addrs();
            // The thread is free, whether or not somebody still waits for the answer.
            drop((one, any));
            Ok(found?.take(ADDRESSES_MAX).collect())
        });
        looking.await.map_err(io::Error::other)?
    }
}
