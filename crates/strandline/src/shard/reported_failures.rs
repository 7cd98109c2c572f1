//! Which failures of encrypted connections were reported: a peer that fails at each attempt does so for the same
//! reason, which is worth a line of the log once. No I/O.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use strandline_dtls::{Failure, PeerSide};
use strandline_proto::zone;

/// Maximum number of peers that are remembered; beyond it, failures are reported once more.
const PEERS_MAX: usize = 4096;
/// Maximum number of failures of a peer that are remembered.
const FAILURES_MAX: usize = 8;

/// The failures of each peer since it was last connected.
#[derive(Debug, Default)]
pub(crate) struct ReportedFailures(HashMap<Peer, Vec<Failure>>);

/// What tells peers apart: the address of a client, which comes from ever new ports, and the address and port of a
/// server. A link-local address is another one on each link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Peer {
    Client(IpAddr),
    Server(IpAddr, u16),
}

impl Peer {
    fn of(address: SocketAddr, side: PeerSide) -> Self {
        let ip = zone::key(address).to_canonical();
        match side {
            PeerSide::Client => Self::Client(ip),
            PeerSide::Server => Self::Server(ip, address.port()),
        }
    }
}

impl ReportedFailures {
    /// Notes a failure. Returns whether the peer has not failed in this way since it was last connected.
    pub(crate) fn is_new(&mut self, address: SocketAddr, side: PeerSide, failure: &Failure) -> bool {
        let peer = Peer::of(address, side);
        if self.0.len() >= PEERS_MAX && !self.0.contains_key(&peer) {
            self.0.clear();
        }
        let known = self.0.entry(peer).or_default();
        if known.contains(failure) {
            return false;
        }
        if known.len() >= FAILURES_MAX {
            known.remove(0);
        }
        known.push(failure.clone());
        true
    }

    /// Notes that there is a connection with a peer.
    pub(crate) fn on_established(&mut self, address: SocketAddr, side: PeerSide) {
        self.0.remove(&Peer::of(address, side));
    }
}

#[cfg(test)]
mod tests;
