//! Which failures of encrypted connections were reported: a peer that fails at each attempt does so for the same
//! reason, which is worth a line of the log once. No I/O.

use std::collections::HashMap;
use std::net::IpAddr;

use strandline_dtls::Failure;

/// Maximum number of peers that are remembered; beyond it, failures are reported once more.
const PEERS_MAX: usize = 4096;
/// Maximum number of failures of a peer that are remembered.
const FAILURES_MAX: usize = 8;

/// The failures of each peer since it was last connected. A peer is an address: clients come from ever new ports.
#[derive(Debug, Default)]
pub(crate) struct ReportedFailures(HashMap<IpAddr, Vec<Failure>>);

impl ReportedFailures {
    /// Notes a failure. Returns whether the peer has not failed in this way since it was last connected.
    pub(crate) fn is_new(&mut self, peer: IpAddr, failure: &Failure) -> bool {
        let peer = peer.to_canonical();
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
    pub(crate) fn on_established(&mut self, peer: IpAddr) {
        self.0.remove(&peer.to_canonical());
    }
}

#[cfg(test)]
mod tests;
