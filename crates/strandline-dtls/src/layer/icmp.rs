//! ICMP messages about encrypted datagrams.

use std::net::SocketAddr;
use std::time::Instant;

use super::Layer;
use crate::failure::Failure;
use crate::header::{Cid, Header};

/// Associations of a connection that are told of a message at most.
const ASSOCIATIONS_MAX: usize = 16;

/// The start of an SCTP packet to a peer: ports and verification tag.
pub type PacketStart = [u8; 8];

impl Layer {
    /// Handles an ICMP message that quotes a datagram to an address. It counts only if it quotes the
    /// connection ID, which nobody guesses. `is_refused`: nobody listens there, which ends a handshake that
    /// has not got an answer, and nothing else.
    ///
    /// Returns the address as the engine knows it, and the starts of packets as the engine sends them there:
    /// the message is about them as well.
    pub fn handle_icmp(
        &mut self,
        now: Instant,
        destination: SocketAddr,
        quoted: &[u8],
        is_refused: bool,
    ) -> Option<(SocketAddr, Vec<PacketStart>)> {
        let cid = self.quoted_connection(destination, quoted)?;
        let connection = self.connections.get(&cid)?;
        let known = connection.paths.known().find(|known| connection.paths.actual(*known) == destination)?;
        if !connection.is_established {
            if is_refused && connection.is_unanswered() {
                self.fail(now, cid, Failure::Unreachable);
            }
            return None;
        }
        // The peer's NAT may have given it another address: it will be heard from there.
        if is_refused {
            return None;
        }
        Some((known, self.tags.packets_of(cid).take(ASSOCIATIONS_MAX).collect()))
    }

    /// Returns the connection of the datagram that is quoted, at least its header.
    fn quoted_connection(&self, destination: SocketAddr, quoted: &[u8]) -> Option<Cid> {
        let (own, peer) = match Header::parse(quoted)? {
            Header::Initial { source, .. } => (source, None),
            Header::Handshake { destination, source, .. } => (source, Some(destination)),
            // Only as long as the peer is where it was at first.
            Header::Data { destination: peer, .. } => (*self.by_address.get(&destination)?, Some(peer)),
            Header::Retry { .. } | Header::Reset { .. } | Header::Plain { .. } => return None,
        };
        let connection = self.connections.get(&own)?;
        (peer.is_none() || connection.peer_cid() == peer).then_some(own)
    }
}
