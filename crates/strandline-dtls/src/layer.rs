//! All connections of a shard.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use rustls_pki_types::UnixTime;

use self::failing::{ClientFailures, ForEngine};
pub use self::foreign::answer_to_hello;
pub use self::icmp::IcmpReport;
pub use self::unreachable::Affected;
use crate::config::{Config, ConfigError};
use crate::connection::{Connection, Context, Held, PeerSide};
use crate::failure::Failure;
use crate::header::{Cid, Header};
use crate::identity::PeerIdentity;
use crate::inbox::Inbox;
use crate::known_hosts::KnownHost;
use crate::packets::{Arrival, InitOf, Outgoing, Packets};
use crate::sources::{Source, Sources};
use crate::tags::{Inbound, Orphan, Outbound, Tags};
use crate::token::{ResetTokens, Tokens};

/// Time between two searches for tags that the engine no longer has: longer than a cookie lives.
const SWEEP_INTERVAL: Duration = Duration::from_secs(90);

/// INITs over a connection without any sign of life, after which a new connection is begun.
const UNANSWERED_MAX: u32 = 2;

/// Datagrams that wait to be sent at most; more are dropped as if lost on the way.
const OUT_MAX: usize = 4096;

/// The part of a connection ID that names the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shard {
    /// The index.
    pub index: u32,
    /// Number of low bits that hold it; 0 with one shard.
    pub bits: u8,
}

/// What a layer reports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A connection with a peer exists, who has proved to be this; `None` for an anonymous client.
    Established(SocketAddr, PeerSide, Option<PeerIdentity>),
    /// A connection could not be established, or has ended.
    Failed(SocketAddr, PeerSide, Failure),
    /// A client that has proved nothing could not establish a connection, or has ended one, after as many
    /// others that were not reported. Reported at most every ten seconds, beyond the first eight.
    ClientFailed(SocketAddr, Failure, u64),
    /// A server was not known and is from now on.
    Learned(KnownHost),
    /// A peer at this address tries to set up an association without encryption. Reported at most every ten seconds.
    NotEncrypted(SocketAddr),
}

/// Counters of a layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Connections that exist, those with a handshake in progress included.
    pub connections: usize,
    /// Handshakes of clients in progress.
    pub half_open: usize,
    /// Connections established since the start.
    pub established: u64,
    /// Connections that failed, and handshakes that did not succeed.
    pub failed: u64,
    /// Datagrams dropped: of no connection, malformed, or beyond a limit.
    pub dropped: u64,
    /// Packets dropped because they belong to an association of another connection, or to none.
    pub refused: u64,
}

impl core::iter::Sum for Stats {
    fn sum<I: Iterator<Item = Self>>(stats: I) -> Self {
        stats.fold(Self::default(), |sum, one| Self {
            connections: sum.connections + one.connections,
            half_open: sum.half_open + one.half_open,
            established: sum.established + one.established,
            failed: sum.failed + one.failed,
            dropped: sum.dropped + one.dropped,
            refused: sum.refused + one.refused,
        })
    }
}

/// A burst of packets of the engine.
#[derive(Debug, Clone, Copy)]
pub struct Burst<'a> {
    /// The address that the engine knows the peer by.
    pub destination: SocketAddr,
    /// The local address to send from, if it matters.
    pub source: Option<IpAddr>,
    /// The packets.
    pub bytes: &'a [u8],
    /// Length of each but the last, which may be shorter.
    pub segment_size: usize,
}

/// A burst after encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// Where to send it.
    pub destination: SocketAddr,
    /// Number of bytes written.
    pub len: usize,
    /// Length of each datagram but the last, which may be shorter.
    pub segment_size: usize,
}

/// The layer between carrier and engine: it encrypts packets, and authenticates peers. No I/O: datagrams,
/// packets and the time are input.
///
/// - [`handle_datagram`](Self::handle_datagram) takes what arrived and appends decrypted packets.
/// - [`seal`](Self::seal) encrypts packets of the engine, and begins a handshake if there is no connection yet.
/// - [`poll_transmit`](Self::poll_transmit) returns datagrams of the layer itself,
///   [`poll_event`](Self::poll_event) what happened, [`poll_refusal`](Self::poll_refusal) addresses that have
///   refused a handshake; all after any of the other calls, until they return `None`.
/// - [`poll_timeout`](Self::poll_timeout) is when to call [`handle_timeout`](Self::handle_timeout).
#[derive(Debug)]
pub struct Layer {
    config: Arc<Config>,
    own: Arc<dimpl::Config>,
    plain: Arc<dimpl::Config>,
    shard: Shard,
    rng: ChaCha20Rng,
    tokens: Tokens,
    resets: ResetTokens,
    /// The time at the start, by both clocks.
    origin: (Instant, UnixTime),
    connections: HashMap<Cid, Connection>,
    /// The connection with the peer at an address.
    by_address: HashMap<SocketAddr, Cid>,
    /// Connections that clients began, by the address and the client's connection ID at first (0 if it has none).
    initials: HashMap<(SocketAddr, Cid), Cid>,
    /// Handshakes of clients. Those without a header of ours are apart: their addresses are not proved at first.
    sources: Sources,
    plain_sources: Sources,
    /// The names by which the user knows servers.
    names: HashMap<SocketAddr, String>,
    tags: Tags,
    timers: BTreeSet<(Instant, Cid)>,
    next_sweep: Option<Instant>,
    inbox: Inbox,
    out: VecDeque<Outgoing>,
    events: VecDeque<Event>,
    learned: Vec<KnownHost>,
    for_engine: ForEngine,
    /// When an [`Event::NotEncrypted`] is to be reported again.
    next_report: Instant,
    client_failures: ClientFailures,
    stats: Stats,
}

impl Layer {
    /// Creates a layer. `seed` must be random, `wall` is the time of day at `now`.
    ///
    /// # Errors
    /// If a value of the configuration is out of range.
    pub fn new(
        config: Arc<Config>,
        shard: Shard,
        seed: [u8; 32],
        now: Instant,
        wall: UnixTime,
    ) -> Result<Self, ConfigError> {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let mut secret = [0; 32];
        rng.fill_bytes(&mut secret);
        let sources = || Sources::new(config.limits.handshakes_per_sec, now);
        let resets = ResetTokens::new(&config.identity.private_key);
        Ok(Self {
            own: config.dtls(false)?,
            plain: config.dtls(true)?,
            sources: sources(),
            plain_sources: sources(),
            config,
            shard,
            rng,
            tokens: Tokens::new(&secret),
            resets,
            origin: (now, wall),
            connections: HashMap::new(),
            by_address: HashMap::new(),
            initials: HashMap::new(),
            names: HashMap::new(),
            tags: Tags::default(),
            timers: BTreeSet::new(),
            next_sweep: None,
            inbox: Inbox::new(),
            out: VecDeque::new(),
            events: VecDeque::new(),
            learned: Vec::new(),
            for_engine: ForEngine::default(),
            next_report: now,
            client_failures: ClientFailures::new(now),
            stats: Stats::default(),
        })
    }

    /// Names the server at an address as the user does: known hosts and certificates are looked up by it.
    pub fn set_name(&mut self, address: SocketAddr, name: &str) {
        self.names.insert(address, name.to_owned());
    }

    /// Returns who the peer of the association with this tag of ours has proved to be. `None` if it is
    /// anonymous, or there is no such association.
    #[must_use]
    pub fn peer_identity(&self, local_tag: u32) -> Option<&PeerIdentity> {
        let cid = self.tags.connection_of(local_tag)?;
        self.connections.get(&cid)?.identity()
    }

    /// Returns whether an INIT may concern the association with this tag of ours: whether its sender is that
    /// association's peer.
    #[must_use]
    pub fn may_set_up(&self, init: &InitOf, local_tag: u32) -> bool {
        match self.tags.connection_of(local_tag) {
            Some(cid) if cid == init.connection => true,
            Some(cid) => {
                let identity = |cid| self.connections.get(cid).and_then(Connection::identity);
                identity(&cid).is_some() && identity(&cid) == identity(&init.connection)
            }
            None => true,
        }
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            connections: self.connections.len(),
            half_open: self.sources.count() + self.plain_sources.count(),
            ..self.stats
        }
    }

    /// Handles a datagram, and appends the packets in it to `packets`.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &[u8],
        packets: &mut Packets,
    ) {
        let source = arrival.source;
        let (cid, peer_cid, records) = match Header::parse(datagram) {
            Some(Header::Data { destination, record }) => (Some(destination), None, record),
            Some(Header::Handshake { destination, source, records }) => {
                (Some(destination), Some(source), records)
            }
            Some(Header::Initial { source: peer_cid, token, records }) => {
                (self.accept(now, source, peer_cid, token, records), Some(peer_cid), records)
            }
            Some(Header::Retry { destination, token }) => {
                self.on_retry(now, source, destination, token);
                return self.give_up(packets);
            }
            Some(Header::Reset { destination, token }) => {
                self.on_reset(now, source, destination, token);
                return self.give_up(packets);
            }
            Some(Header::Plain { records }) => (self.plain_connection(now, source, records), None, records),
            None => (None, None, &[][..]),
        };
        let cid = cid.filter(|cid| self.connections.contains_key(cid));
        let Some(cid) = cid else {
            self.stats.dropped += 1;
            self.answer_lost(arrival, datagram);
            self.refuse_plain(now, arrival, datagram);
            return;
        };
        self.with(now, cid, |connection, cx| connection.receive(cx, arrival, peer_cid, records));
        self.sort(cid, arrival, packets);
        self.give_up(packets);
    }

    /// Encrypts a burst into `out`, which must have room for [`overhead`](Self::overhead) more bytes for each packet.
    /// Returns `None` if nothing is to be sent now: the packets wait for a handshake, or belong to no connection.
    pub fn seal(&mut self, now: Instant, burst: &Burst<'_>, out: &mut [u8]) -> Option<Sealed> {
        let first = burst.bytes.get(..burst.segment_size.min(burst.bytes.len()))?;
        let cid = self.connection_for(now, burst.destination, first)?;
        let connection = self.connections.get_mut(&cid)?;
        if !connection.can_send() {
            for packet in burst.bytes.chunks(burst.segment_size.max(1)) {
                let held =
                    Held { destination: burst.destination, source: burst.source, bytes: packet.to_vec() };
                self.with(now, cid, |connection, cx| {
                    connection.hold(cx, held);
                    connection.also_try(cx, burst.destination);
                    Ok(())
                });
            }
            return None;
        }
        let destination = connection.paths.actual(burst.destination);
        let (mut len, mut segment_size) = (0, 0);
        for packet in burst.bytes.chunks(burst.segment_size.max(1)) {
            // The packets of a burst are those of one association.
            if packet.get(..8) != first.get(..8) {
                self.stats.refused += 1;
                continue;
            }
            let Some(sealed) = connection.seal(packet, out.get_mut(len..)?) else { break };
            len += sealed;
            segment_size = segment_size.max(sealed);
        }
        self.with(now, cid, Connection::finish_sealing);
        (len > 0).then_some(Sealed { destination, len, segment_size })
    }

    /// Returns the bytes that encryption adds to each packet: header, record header, content type and tag.
    #[must_use]
    pub fn overhead() -> u16 {
        (crate::header::DATA_HEADER_LEN + crate::connection::RECORD_OVERHEAD) as u16
    }

    /// Returns the next datagram of the layer itself.
    pub fn poll_transmit(&mut self) -> Option<Outgoing> {
        self.out.pop_front()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called; `None` if nothing is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let first = self.timers.first().map(|(at, _)| *at);
        let at_once = (!self.for_engine.aborts.is_empty()).then_some(self.origin.0);
        [first, self.next_sweep, at_once].into_iter().flatten().min()
    }

    /// Handles timers that are due. `is_used` tells whether the engine has an association with a tag.
    pub fn handle_timeout(&mut self, now: Instant, packets: &mut Packets, is_used: impl FnMut(u32) -> bool) {
        while let Some((at, cid)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            let Some(connection) = self.connections.get_mut(&cid) else { continue };
            connection.armed = None;
            let is_idle = connection.last_heard + self.config.limits.idle_timeout <= now;
            if is_idle && (!connection.is_established || !self.tags.has_some(cid)) {
                self.with(now, cid, |connection, cx| {
                    connection.close(cx);
                    Ok(())
                });
                self.remove(cid);
                continue;
            }
            if is_idle {
                // Its associations have timers of their own, and end if the peer is gone.
                connection.last_heard = now;
            }
            self.with(now, cid, Connection::on_timeout);
        }
        if self.next_sweep.is_some_and(|at| at <= now) {
            self.tags.begin_sweep();
            let more = self.tags.sweep(is_used);
            let wait = if more { Duration::from_millis(1) } else { SWEEP_INTERVAL };
            self.next_sweep = (!self.tags.is_empty()).then(|| now + wait);
        }
        self.give_up(packets);
    }

    /// Closes all connections.
    pub fn close(&mut self, now: Instant) {
        let all: Vec<Cid> = self.connections.keys().copied().collect();
        for cid in all {
            self.with(now, cid, |connection, cx| {
                connection.close(cx);
                Ok(())
            });
            self.remove(cid);
        }
    }

    /// Runs a function with a connection and what it needs, then handles the outcome.
    fn with(
        &mut self,
        now: Instant,
        cid: Cid,
        run: impl FnOnce(&mut Connection, &mut Context<'_>) -> Result<(), Failure>,
    ) {
        let Some(connection) = self.connections.get_mut(&cid) else { return };
        self.inbox.clear();
        let was_established = connection.is_established;
        let mut cx = Context {
            now,
            wall: wall_at(self.origin, now),
            trust: &self.config.trust,
            anonymous_clients: self.config.anonymous_clients,
            own: self.config.identity.fingerprint(),
            resets: &self.resets,
            held_max: self.config.limits.held_packets_max,
            out: &mut self.out,
            inbox: &mut self.inbox,
            learned: &mut self.learned,
            nonce: self.rng.next_u64(),
        };
        let result = run(connection, &mut cx);
        self.out.truncate(OUT_MAX);
        self.events.extend(self.learned.drain(..).map(Event::Learned));
        if let Err(failure) = result {
            self.fail(now, cid, failure);
            return;
        }
        let established = connection.is_established && !was_established;
        let at = connection.timeout(self.config.limits.idle_timeout);
        if connection.armed.is_none_or(|armed| at < armed) {
            if let Some(armed) = connection.armed.replace(at) {
                self.timers.remove(&(armed, cid));
            }
            self.timers.insert((at, cid));
        }
        if established {
            self.on_established(cid);
        }
    }

    /// A connection is ready: it is the one with its peer's address from now on.
    fn on_established(&mut self, cid: Cid) {
        let Some(connection) = self.connections.get(&cid) else { return };
        self.stats.established += 1;
        self.by_address.extend(connection.paths.known().map(|address| (address, cid)));
        if let Some(address) = connection.paths.known().next() {
            let identity = connection.identity().cloned();
            self.events.push_back(Event::Established(address, connection.peer_side(), identity));
        }
        if let Some((source, _)) = connection.initial {
            let is_plain = connection.is_plain();
            self.sources_of(is_plain).remove(Source::of(source.ip()), cid);
        }
    }

    /// Forgets a connection. Returns the associations that it leaves behind.
    fn remove(&mut self, cid: Cid) -> Vec<Orphan> {
        if let Some(connection) = self.connections.remove(&cid) {
            if let Some(armed) = connection.armed {
                self.timers.remove(&(armed, cid));
            }
            for known in connection.paths.known() {
                if self.by_address.get(&known) == Some(&cid) {
                    self.by_address.remove(&known);
                }
            }
            if let Some(initial) = connection.initial {
                self.initials.remove(&initial);
                self.sources_of(connection.is_plain()).remove(Source::of(initial.0.ip()), cid);
            }
        }
        self.tags.forget(cid)
    }

    /// Passes on the packets in the inbox that may reach the engine.
    fn sort(&mut self, cid: Cid, arrival: &Arrival, packets: &mut Packets) {
        let Some(connection) = self.connections.get_mut(&cid) else { return };
        for bytes in self.inbox.packets() {
            let init = match self.tags.on_inbound(cid, bytes) {
                Inbound::Pass => None,
                Inbound::Named(addresses) => {
                    connection.paths.name(&addresses);
                    None
                }
                Inbound::Init(addresses) => {
                    connection.paths.name(&addresses);
                    Some(InitOf { connection: cid, addresses })
                }
                Inbound::Drop => {
                    self.stats.refused += 1;
                    continue;
                }
            };
            let source = connection.paths.place(arrival.source).known;
            packets.push(Arrival { source, ..*arrival }, bytes, init);
        }
    }

    /// Finds or begins the connection for packets of the engine.
    fn connection_for(&mut self, now: Instant, destination: SocketAddr, packet: &[u8]) -> Option<Cid> {
        let outbound = self.tags.on_outbound(packet);
        if self.next_sweep.is_none() && !self.tags.is_empty() {
            self.next_sweep = Some(now + SWEEP_INTERVAL);
        }
        match outbound {
            Outbound::Over(cid) if self.is_alive(cid, packet) => Some(cid),
            Outbound::Over(_) | Outbound::Init => {
                let known = self.by_address.get(&destination).copied();
                let known = known.filter(|cid| self.is_alive(*cid, packet));
                let cid = match known.filter(|cid| self.is_server(now, *cid, destination)) {
                    Some(cid) => cid,
                    None => self.dial(now, destination)?,
                };
                self.tags.assign(packet, cid);
                Some(cid)
            }
            Outbound::Stateless => self.by_address.get(&destination).copied(),
            Outbound::Drop => {
                self.stats.refused += 1;
                None
            }
        }
    }

    /// Returns whether the peer of a connection is the server that is wanted at an address.
    fn is_server(&self, now: Instant, cid: Cid, address: SocketAddr) -> bool {
        let Some(connection) = self.connections.get(&cid) else { return false };
        let name = self.names.get(&address).map(String::as_str);
        let wall = wall_at(self.origin, now);
        connection.is_server(address, name, &self.config.trust, wall)
    }

    /// Returns whether a connection may carry a packet. An INIT is a question: if several stay unanswered,
    /// the peer may have lost the connection.
    fn is_alive(&mut self, cid: Cid, packet: &[u8]) -> bool {
        let Some(connection) = self.connections.get_mut(&cid) else { return false };
        let is_init = packet.get(4..8) == Some(&[0; 4][..]);
        if !is_init || !connection.is_established {
            return true;
        }
        connection.inits_unanswered += 1;
        connection.inits_unanswered <= UNANSWERED_MAX
    }
}

fn wall_at((origin, wall): (Instant, UnixTime), now: Instant) -> UnixTime {
    let since = now.saturating_duration_since(origin);
    UnixTime::since_unix_epoch(Duration::from_secs(wall.as_secs()) + since)
}

mod admission;
mod failing;
mod foreign;
mod icmp;
mod replacing;
#[cfg(test)]
mod tests;
mod unreachable;
