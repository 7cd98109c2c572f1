//! Handshakes: those that this side begins, and which of those of clients are taken.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rand_core::RngCore as _;

use super::{Layer, OUT_MAX};
use crate::connection::{Connection, End, Role};
use crate::header::{Cid, Header, with_bits_of};
use crate::packets::Outgoing;
use crate::sources::{Source, Sources};

/// Bytes of a ClientHello at least: the answer to something shorter would be longer than it.
const CLIENT_HELLO_MIN: usize = 64;

/// First byte of a record with a message of a handshake (RFC 9147 section 4.1).
const HANDSHAKE_RECORD: u8 = 22;

impl Layer {
    /// Begins a handshake with the server at an address.
    pub(super) fn dial(&mut self, now: Instant, address: SocketAddr) -> Option<Cid> {
        let name = self.names.get(&address).cloned();
        let is_plain = self.config.sends_plain;
        let cid = self.add(now, address, Role::Client { name }, None, is_plain)?;
        self.by_address.insert(address, cid);
        self.with(now, cid, Connection::start);
        self.connections.contains_key(&cid).then_some(cid)
    }

    /// Finds the handshake that a client's Initial belongs to, or begins one if the client has proved that it
    /// receives at its address.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        source: SocketAddr,
        peer_cid: Cid,
        token: &[u8],
        records: &[u8],
    ) -> Option<Cid> {
        if let Some(cid) = self.initials.get(&(source, peer_cid)) {
            return Some(*cid);
        }
        if records.len() < CLIENT_HELLO_MIN {
            return None;
        }
        let secs = now.saturating_duration_since(self.origin.0).as_secs() as u32;
        if !self.tokens.is_valid(secs, source, peer_cid, token) {
            if self.out.len() < OUT_MAX {
                let token = self.tokens.issue(secs, source, peer_cid);
                let mut bytes = Vec::new();
                Header::Retry { destination: peer_cid, token: &token }.write(&mut bytes);
                self.out.push_back(Outgoing { destination: source, source: None, bytes });
            }
            return None;
        }
        self.admit(now, source, Some(peer_cid), false)
    }

    /// Finds the connection with a peer that sends no header of ours, or begins one.
    pub(super) fn plain_connection(
        &mut self,
        now: Instant,
        source: SocketAddr,
        records: &[u8],
    ) -> Option<Cid> {
        let found = self.by_address.get(&source).or_else(|| self.initials.get(&(source, 0))).copied();
        let found = found.filter(|cid| self.connections.get(cid).is_some_and(Connection::is_plain));
        if found.is_some() || !self.config.accepts_plain || records.first() != Some(&HANDSHAKE_RECORD) {
            return found;
        }
        self.admit(now, source, None, true)
    }

    /// Begins a handshake with a client, within the limits.
    fn admit(
        &mut self,
        now: Instant,
        source: SocketAddr,
        peer_cid: Option<Cid>,
        is_plain: bool,
    ) -> Option<Cid> {
        let from = Source::of(source.ip());
        let open_max = self.config.limits.half_open_max;
        let sources = self.sources_of(is_plain);
        if !sources.may_begin(from, now) {
            return None;
        }
        if sources.count() >= open_max {
            let oldest = sources.oldest_of_largest()?;
            self.remove(oldest);
            self.stats.failed += 1;
        }
        let cid = self.add(now, source, Role::Server, peer_cid, is_plain)?;
        let initial = (source, peer_cid.unwrap_or(0));
        if let Some(connection) = self.connections.get_mut(&cid) {
            connection.initial = Some(initial);
            self.initials.insert(initial, cid);
            self.sources_of(is_plain).add(from, cid);
        }
        Some(cid)
    }

    /// Returns the handshakes of clients with a header of ours, or of those without.
    pub(super) fn sources_of(&mut self, is_plain: bool) -> &mut Sources {
        if is_plain { &mut self.plain_sources } else { &mut self.sources }
    }

    fn add(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        role: Role,
        peer_cid: Option<Cid>,
        is_plain: bool,
    ) -> Option<Cid> {
        if self.connections.len() >= self.config.limits.connections_max {
            return None;
        }
        let mask = (1u64 << self.shard.bits) - 1;
        let cid = loop {
            let random = self.rng.next_u64();
            let random = peer_cid.map_or(random, |peer| with_bits_of(peer, random));
            let cid = (random & !mask) | (u64::from(self.shard.index) & mask);
            if cid != 0 && !self.connections.contains_key(&cid) {
                break cid;
            }
        };
        let config = if is_plain { &self.plain } else { &self.own };
        let end = End { role, cid, peer_cid, is_plain };
        let connection = Connection::new(Arc::clone(config), self.config.certificate(), end, peer, now);
        self.connections.insert(cid, connection);
        Some(cid)
    }
}
