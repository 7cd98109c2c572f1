//! Addresses of a server at which a handshake gets no further. The engine knows the server's other addresses: it
//! decides whether an association goes on.

use std::net::SocketAddr;
use std::time::Instant;

use super::Layer;
use crate::abort::abort_packet;
use crate::failure::Failure;
use crate::header::Cid;
use crate::packets::Arrival;
use crate::tags::PacketStart;

/// An address that something was reported of, and the packets of the engine that it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Affected {
    /// The address as the engine knows it.
    pub destination: SocketAddr,
    /// Starts of packets as the engine sends them there.
    pub packets: Vec<PacketStart>,
    pub(super) connection: Cid,
    /// Why the handshake fails if none of the associations has another address.
    pub(super) failure: Option<Failure>,
}

impl Layer {
    /// Returns the next address that has refused a handshake: the peer there does not encrypt, or nobody listens.
    /// [`report`](Self::report) passes it on.
    pub fn poll_refusal(&mut self) -> Option<Affected> {
        self.for_engine.refusals.pop_front()
    }

    /// Passes a report to the engine: `tell` is called for each packet, and returns whether its association goes on.
    /// The others end with the reason. A handshake whose associations all end fails.
    pub fn report(
        &mut self,
        now: Instant,
        affected: &Affected,
        mut tell: impl FnMut(SocketAddr, &PacketStart) -> bool,
    ) {
        let Affected { destination, packets, connection: cid, failure } = affected;
        let ended: Vec<_> = packets.iter().filter(|start| !tell(*destination, start)).collect();
        let Some(failure) = failure else { return };
        if ended.len() == packets.len() {
            if let Some(connection) = self.connections.get_mut(cid) {
                connection.paths.prefer(*destination);
                self.fail(now, *cid, failure.clone());
            }
            return;
        }
        let arrival = Arrival { source: *destination, destination: None, ecn: 0 };
        for start in ended {
            let orphan = self.tags.give_up(start.tag);
            let over = orphan.filter(|orphan| failure.ends(orphan.is_answered));
            self.for_engine
                .aborts
                .extend(over.map(|orphan| (arrival, abort_packet(&orphan, &failure.to_string()))));
        }
    }

    /// Handles a Retry. Without a token it is that of a peer that does not encrypt.
    pub(super) fn on_retry(&mut self, now: Instant, source: SocketAddr, cid: Cid, token: &[u8]) {
        if !token.is_empty() {
            return self.with(now, cid, |connection, cx| connection.on_retry(cx, token));
        }
        let Some(connection) = self.connections.get(&cid).filter(|one| one.is_unasked()) else { return };
        let paths = &connection.paths;
        let is_only = paths.known().count() == 1;
        let found = paths.known().find(|known| is_only || paths.actual(*known) == source);
        if let Some(destination) = found {
            self.refuse(cid, destination, Failure::NotEncrypted);
        }
    }

    /// Notes that an address has refused a handshake.
    pub(super) fn refuse(&mut self, connection: Cid, destination: SocketAddr, failure: Failure) {
        let packets = self.tags.inits_of(connection).collect();
        self.for_engine.refusals.push_back(Affected {
            destination,
            packets,
            connection,
            failure: Some(failure),
        });
    }
}
