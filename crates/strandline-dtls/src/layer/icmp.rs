//! ICMP messages about encrypted datagrams.

use std::net::SocketAddr;

use super::Layer;
use super::unreachable::Affected;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::header::{Cid, Header};

/// Packets of an established connection whose associations are told of a message at most.
const PACKETS_MAX: usize = 16;

/// What an ICMP message, or the system itself, reports of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpReport {
    /// Nobody listens at the address and port.
    Refused,
    /// This host can't send to the address. Only the system itself reports this.
    NoRoute,
    /// The host or its network is unreachable.
    HostUnreachable,
    /// It is longer than the path MTU.
    TooBig,
}

impl Layer {
    /// Handles an ICMP message that quotes a datagram to an address. It counts only if it quotes the
    /// connection ID, which nobody guesses.
    ///
    /// Returns what the message is about in the terms of the engine, for [`report`](Self::report). A refusal is
    /// returned by [`poll_refusal`](Self::poll_refusal) instead, and only that of a handshake without an answer counts.
    pub fn handle_icmp(
        &mut self,
        destination: SocketAddr,
        quoted: &[u8],
        report: IcmpReport,
    ) -> Option<Affected> {
        let cid = self.quoted_connection(destination, quoted, report)?;
        let connection = self.connections.get(&cid)?;
        let known = connection.paths.known().find(|known| connection.paths.actual(*known) == destination)?;
        let affected = |packets, failure| Affected { destination: known, packets, connection: cid, failure };
        match (report, connection.is_established) {
            (IcmpReport::Refused, false) => {
                if connection.is_unanswered() {
                    self.refuse(cid, known, Failure::Unreachable);
                }
                None
            }
            // The peer's NAT may have given it another address: it will be heard from there.
            (IcmpReport::Refused, true) => None,
            // The MTU is that of packets: handshakes have one of their own.
            (IcmpReport::TooBig, false) => None,
            (IcmpReport::NoRoute | IcmpReport::HostUnreachable, false) => {
                let failure = (report == IcmpReport::NoRoute).then_some(Failure::NoRoute);
                Some(affected(self.tags.inits_of(cid).collect(), failure))
            }
            (_, true) => {
                let packets = self.tags.inits_of(cid).chain(self.tags.packets_of(cid));
                Some(affected(packets.take(PACKETS_MAX).collect(), None))
            }
        }
    }

    /// Returns the connection of the datagram that is quoted, at least its header.
    fn quoted_connection(&self, destination: SocketAddr, quoted: &[u8], report: IcmpReport) -> Option<Cid> {
        let (own, peer) = match Header::parse(quoted)? {
            Header::Initial { source, .. } => (source, None),
            Header::Handshake { destination, source, .. } => (source, Some(destination)),
            // Only as long as the peer is where it was at first.
            Header::Data { destination: peer, .. } => (*self.by_address.get(&destination)?, Some(peer)),
            // Without an ID to guess. The system does not forge.
            Header::Plain { .. } if report == IcmpReport::NoRoute => {
                let found = *self.by_address.get(&destination)?;
                return self.connections.get(&found).filter(|one| Connection::is_plain(one)).map(|_| found);
            }
            Header::Retry { .. } | Header::Reset { .. } | Header::Plain { .. } => return None,
        };
        let connection = self.connections.get(&own)?;
        (peer.is_none() || connection.peer_cid() == peer).then_some(own)
    }
}
