//! The end of connections: by failures, and by peers that have lost them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Affected, Event, Layer, OUT_MAX};
use crate::abort::abort_packet;
use crate::failure::Failure;
use crate::header::{Cid, Header};
use crate::packets::{Arrival, Outgoing, Packets};

/// Failures of clients that are reported at once, and the time after which there may be one more.
const REPORTS_MAX: u32 = 8;
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// What the engine has yet to be told.
#[derive(Debug, Default)]
pub(super) struct ForEngine {
    /// Addresses that have refused a handshake.
    pub(super) refusals: VecDeque<Affected>,
    /// ABORTs for associations of failed connections.
    pub(super) aborts: Vec<(Arrival, Vec<u8>)>,
}

/// How many failures of clients may be reported, and how many were not.
#[derive(Debug)]
pub(super) struct ClientFailures {
    left: u32,
    since: Instant,
    unreported: u64,
}

impl ClientFailures {
    pub(super) const fn new(now: Instant) -> Self {
        Self { left: REPORTS_MAX, since: now, unreported: 0 }
    }

    /// Returns the number of failures that were not reported if this one may be.
    fn count(&mut self, now: Instant) -> Option<u64> {
        while self.left < REPORTS_MAX && self.since + REPORT_EVERY <= now {
            self.left += 1;
            self.since += REPORT_EVERY;
        }
        if self.left == REPORTS_MAX {
            self.since = now;
        }
        if self.left == 0 {
            self.unreported += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.unreported))
    }
}

impl Layer {
    /// Ends a connection, and its associations unless they may still be set up over another one.
    pub(super) fn fail(&mut self, now: Instant, cid: Cid, failure: Failure) {
        self.stats.failed += 1;
        let Some(connection) = self.connections.get(&cid) else { return };
        let address = connection.paths.known().next();
        let (is_strange, side) = (connection.is_strange(), connection.peer_side());
        let orphans = self.remove(cid);
        let Some(address) = address else { return };
        let arrival = Arrival { source: address, destination: None, ecn: 0 };
        let over = orphans.into_iter().filter(|orphan| failure.ends(orphan.is_answered));
        let abort = |orphan| (arrival, abort_packet(&orphan, &failure.to_string()));
        self.for_engine.aborts.extend(over.map(abort));
        let event = if is_strange {
            self.client_failures.count(now).map(|others| Event::ClientFailed(address, failure, others))
        } else {
            Some(Event::Failed(address, side, failure))
        };
        self.events.extend(event);
    }

    /// Passes the ABORTs of failed connections on.
    pub(super) fn give_up(&mut self, packets: &mut Packets) {
        for (arrival, bytes) in self.for_engine.aborts.drain(..) {
            packets.push(arrival, &bytes, None);
        }
    }

    /// Tells the sender of a datagram whose connection this side does not know, as after a new start. The
    /// answer is shorter.
    pub(super) fn answer_lost(&mut self, arrival: &Arrival, datagram: &[u8]) {
        let Some(Header::Data { destination, .. }) = Header::parse(datagram) else { return };
        let mask = (1u64 << self.shard.bits) - 1;
        let is_own = destination & mask == u64::from(self.shard.index) & mask;
        let token = self.resets.of(destination, arrival.source);
        let mut bytes = Vec::new();
        Header::Reset { destination, token: &token }.write(&mut bytes);
        if is_own && bytes.len() < datagram.len() && self.out.len() < OUT_MAX {
            let (destination, source) = (arrival.source, arrival.destination);
            self.out.push_back(Outgoing { destination, source, bytes });
        }
    }

    /// Ends a connection that its server does not know any more. Anything else changes nothing.
    pub(super) fn on_reset(&mut self, now: Instant, source: SocketAddr, server: Cid, token: &[u8]) {
        let found = self.by_address.get(&source).copied();
        let is_meant = |cid: &Cid| {
            let connection = self.connections.get(cid);
            connection.is_some_and(|one| one.peer_cid() == Some(server) && one.is_reset_by(token))
        };
        match found.filter(is_meant) {
            Some(cid) => self.fail(now, cid, Failure::Reset),
            None => self.stats.dropped += 1,
        }
    }
}
