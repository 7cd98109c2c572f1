//! The addresses of a peer, and how they change.
//!
//! The engine knows a peer by the addresses that it was set up with. A NAT may give the peer another one at
//! any time. The connection ID tells that a record is the peer's all the same; but a copy of it may come from
//! anywhere. Packets go to a new address only after the peer has answered a challenge from there.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

/// Addresses of a peer at most, and those that it named.
const PATHS_MAX: usize = 8;
const NAMED_MAX: usize = 16;

/// Time for the answer to a challenge, after which another may be sent.
const CHALLENGE_TIME: Duration = Duration::from_millis(500);

/// The addresses of a connection's peer.
#[derive(Debug)]
pub(crate) struct Paths {
    /// The first is that of the handshake.
    paths: Vec<Path>,
    /// Addresses that the peer named in an INIT or INIT ACK: what comes from them is another path.
    named: Vec<IpAddr>,
    challenge: Option<Challenge>,
}

#[derive(Debug, Clone, Copy)]
struct Path {
    /// The address that the engine knows.
    known: SocketAddr,
    /// Where the peer is now.
    actual: SocketAddr,
}

/// A question whether the peer is at an address.
#[derive(Debug, Clone, Copy)]
struct Challenge {
    nonce: u64,
    path: usize,
    address: SocketAddr,
    until: Instant,
}

/// The address that the engine is told, and whether to ask the peer if it is there now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) known: SocketAddr,
    pub(crate) challenge: bool,
}

impl Paths {
    pub(crate) fn new(first: SocketAddr) -> Self {
        Self { paths: vec![Path { known: first, actual: first }], named: Vec::new(), challenge: None }
    }

    /// Returns where the peer is, the first path's address.
    pub(crate) fn primary(&self) -> Option<SocketAddr> {
        self.paths.first().map(|path| path.actual)
    }

    /// Returns all addresses that the engine knows.
    pub(crate) fn known(&self) -> impl Iterator<Item = SocketAddr> {
        self.paths.iter().map(|path| path.known)
    }

    /// Returns where to send what the engine sends to an address.
    pub(crate) fn actual(&self, known: SocketAddr) -> SocketAddr {
        let path = self.paths.iter().find(|path| path.known == known);
        path.map_or(known, |path| path.actual)
    }

    /// Adds an address that the engine sends to. Returns whether it is new.
    pub(crate) fn add(&mut self, known: SocketAddr) -> bool {
        let is_new = self.paths.iter().all(|path| path.known != known) && self.paths.len() < PATHS_MAX;
        if is_new {
            self.paths.push(Path { known, actual: known });
        }
        is_new
    }

    /// Makes the address that answered the first one.
    pub(crate) fn prefer(&mut self, address: SocketAddr) {
        if let Some(index) = self.paths.iter().position(|path| path.actual == address) {
            self.paths.swap(0, index);
        }
    }

    /// Notes addresses that the peer named as its own.
    pub(crate) fn name(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            let address = address.to_canonical();
            if self.named.len() < NAMED_MAX && !self.named.contains(&address) {
                self.named.push(address);
            }
        }
    }

    /// Finds the path of an authentic record from an address.
    pub(crate) fn place(&mut self, source: SocketAddr) -> Placed {
        let placed = |known, challenge| Placed { known, challenge };
        if let Some(path) = self.paths.iter().find(|path| path.actual == source) {
            return placed(path.known, false);
        }
        match self.moved(source) {
            Some(index) => {
                let known = self.paths.get(index).map_or(source, |path| path.known);
                placed(known, true)
            }
            None => {
                self.add(source);
                placed(source, false)
            }
        }
    }

    /// Returns the path whose peer has moved to an unknown address: the one with this IP address, or the only
    /// one unless the peer named the address as another one.
    fn moved(&self, source: SocketAddr) -> Option<usize> {
        let same_ip = self.paths.iter().position(|path| path.actual.ip() == source.ip());
        same_ip.or_else(|| {
            let is_other = self.named.contains(&source.ip().to_canonical());
            (self.paths.len() == 1 && !is_other).then_some(0)
        })
    }

    /// Begins to ask whether the peer is at an address, unless it is being asked. Returns whether to send the
    /// challenge.
    pub(crate) fn challenge(&mut self, now: Instant, address: SocketAddr, nonce: u64) -> bool {
        if self.challenge.is_some_and(|challenge| now < challenge.until) {
            return false;
        }
        let Some(path) = self.moved(address) else { return false };
        self.challenge = Some(Challenge { nonce, path, address, until: now + CHALLENGE_TIME });
        true
    }

    /// Handles the answer to a challenge, which came from an address. Returns the path's old and new address
    /// if the peer has moved.
    pub(crate) fn on_response(&mut self, source: SocketAddr, nonce: u64) -> Option<(SocketAddr, SocketAddr)> {
        let challenge = self.challenge.filter(|one| one.nonce == nonce && one.address == source)?;
        self.challenge = None;
        let path = self.paths.get_mut(challenge.path)?;
        let old = std::mem::replace(&mut path.actual, challenge.address);
        Some((old, challenge.address))
    }
}

#[cfg(test)]
mod tests;
