//! The encryption of a shard's packets, between carrier and engine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use strandline_dtls::{
    Affected, Arrival, Burst, ConfigError, Event, IcmpReport, Layer, PacketStart, Packets, PeerIdentity,
    Train,
};
use strandline_proto::endpoint::find_named;
use strandline_proto::event::{AssociationId, Datagram, IcmpError, IcmpKind, Transmit};
use strandline_proto::stats::{PathStatus, Reachability};
use strandline_proto::time::Time;
use strandline_proto::zone;
use strandline_wire::Packet;
use strandline_wire::number::VerificationTag;

use crate::bursts::Bursts;
use crate::encryption::{Encryption, OnLearned};
use crate::engine::Engine;
use crate::observe::{self, Direction, PacketObserver};
use crate::shard::reported_failures::ReportedFailures;

/// Room for the engine's bursts: encrypted, 64 packets of them fit in one GSO send.
const PLAIN_BYTES: usize = 62 << 10;

/// A shard's layer of encryption, with buffers of its own.
#[derive(Debug)]
pub(crate) struct Secure {
    layer: Layer,
    /// The instant of the engine's time zero.
    origin: Instant,
    /// Decrypted packets on their way to the engine.
    packets: Packets,
    /// A burst of the engine on its way to be encrypted.
    plain: Box<[u8]>,
    on_learned: Option<Arc<dyn OnLearned>>,
    failures: ReportedFailures,
}

impl Secure {
    pub(crate) fn new(layer: Layer, origin: Instant, on_learned: Option<Arc<dyn OnLearned>>) -> Self {
        let plain = vec![0; PLAIN_BYTES].into();
        let (packets, failures) = (Packets::default(), ReportedFailures::default());
        Self { layer, origin, packets, plain, on_learned, failures }
    }

    pub(crate) fn layer(&self) -> &Layer {
        &self.layer
    }

    pub(crate) fn set_name(&mut self, address: SocketAddr, name: &str) {
        self.layer.set_name(address, name);
    }

    /// Returns who the peer of an association has proved to be.
    pub(crate) fn peer_identity(&self, engine: &Engine, id: AssociationId) -> Option<PeerIdentity> {
        let status = engine.status(id)?;
        self.layer.peer_identity(status.local_tag.0).cloned()
    }

    fn instant(&self, now: Time) -> Instant {
        self.origin + std::time::Duration::from_nanos(now.as_nanos())
    }

    /// Decrypts a datagram. [`deliver`](Self::deliver) gives the engine what was in it.
    pub(crate) fn take(&mut self, now: Time, datagram: &Datagram<'_>) {
        let now = self.instant(now);
        let arrival =
            Arrival { source: datagram.source, destination: datagram.destination, ecn: datagram.ecn };
        self.layer.handle_datagram(now, &arrival, datagram.bytes, &mut self.packets);
    }

    /// Tells the engine of an ICMP message about an encrypted packet.
    pub(crate) fn handle_icmp(&mut self, engine: &mut Engine, now: Time, error: &IcmpError<'_>) {
        let report = match error.kind {
            IcmpKind::ProtocolUnreachable => IcmpReport::Refused,
            IcmpKind::NoRoute => IcmpReport::NoRoute,
            IcmpKind::HostUnreachable => IcmpReport::HostUnreachable,
            IcmpKind::PacketTooBig { .. } => IcmpReport::TooBig,
        };
        if let Some(affected) = self.layer.handle_icmp(error.destination, error.quoted, report) {
            self.pass_on(engine, now, &affected, error.kind);
        }
        self.pass_refusals(engine, now);
        self.report();
    }

    /// Tells the engine of addresses that have refused a handshake.
    fn pass_refusals(&mut self, engine: &mut Engine, now: Time) {
        while let Some(affected) = self.layer.poll_refusal() {
            self.pass_on(engine, now, &affected, IcmpKind::ProtocolUnreachable);
        }
    }

    fn pass_on(&mut self, engine: &mut Engine, now: Time, affected: &Affected, kind: IcmpKind) {
        let at = self.instant(now);
        self.layer.report(at, affected, |destination, start| {
            // The engine would end the association, without the reason that the layer has.
            if kind == IcmpKind::ProtocolUnreachable && is_last_address(engine, destination, start) {
                return false;
            }
            engine.handle_icmp(now, IcmpError { destination, kind, quoted: &start.to_bytes() });
            engine.has_tag(VerificationTag(start.tag))
        });
    }

    /// Gives the engine the decrypted packets.
    pub(crate) fn deliver(&mut self, engine: &mut Engine, now: Time, observer: Option<&dyn PacketObserver>) {
        let (packets, layer) = (&self.packets, &self.layer);
        packets.for_each_train(|train| {
            if !may_pass(engine, layer, &train) {
                return;
            }
            let Arrival { source, destination, ecn } = train.arrival;
            if let Some(observer) = observer {
                let ends = (source, destination);
                observe::show(observer, engine, Direction::Received, ends, train.bytes, train.segment_size);
            }
            let datagram = Datagram { source, destination, bytes: train.bytes, ecn };
            engine.handle_datagrams(now, datagram, train.segment_size);
        });
        self.packets.clear();
        self.pass_refusals(engine, now);
        self.report();
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let at = self.layer.poll_timeout()?;
        Some(Time::ZERO + at.saturating_duration_since(self.origin))
    }

    pub(crate) fn handle_timeout(
        &mut self,
        engine: &mut Engine,
        now: Time,
        observer: Option<&dyn PacketObserver>,
    ) {
        let at = self.instant(now);
        let is_used = |tag| engine.has_tag(VerificationTag(tag));
        self.layer.handle_timeout(at, &mut self.packets, is_used);
        self.deliver(engine, now, observer);
    }

    /// Replaces identity and trust. Associations with peers that are not trusted any more end.
    pub(crate) fn replace(
        &mut self,
        engine: &mut Engine,
        now: Time,
        observer: Option<&dyn PacketObserver>,
        encryption: &Encryption,
    ) -> Result<(), ConfigError> {
        let at = self.instant(now);
        self.layer.replace_config(at, encryption.config.clone(), &mut self.packets)?;
        self.on_learned.clone_from(&encryption.on_learned);
        self.deliver(engine, now, observer);
        Ok(())
    }

    /// Closes all connections.
    pub(crate) fn close(&mut self, now: Time) {
        self.layer.close(self.instant(now));
    }

    /// Gathers the layer's own datagrams, then encrypted bursts of the engine, until there are enough to send together.
    /// Returns false if there are no more.
    pub(crate) fn gather(
        &mut self,
        engine: &mut Engine,
        bursts: &mut Bursts,
        segments_max: usize,
        observer: Option<&dyn PacketObserver>,
        now: Time,
        bursts_left: &mut usize,
    ) -> bool {
        while *bursts_left > 0 && bursts.room().is_some() {
            if self.gather_own(bursts) {
                continue;
            }
            let Some(transmit) = engine.poll_transmit(now, &mut self.plain, segments_max) else {
                return self.gather_own(bursts);
            };
            *bursts_left -= 1;
            let at = self.instant(now);
            let bytes = self.plain.get(..transmit.len).unwrap_or_default();
            if let Some(observer) = observer {
                let ends = (transmit.destination, transmit.source);
                observe::show(observer, engine, Direction::Sent, ends, bytes, transmit.segment_size);
            }
            let Transmit { destination, source, segment_size, .. } = transmit;
            let burst = Burst { destination, source, bytes, segment_size };
            let Some(room) = bursts.room() else { return true };
            if let Some(sealed) = self.layer.seal(at, &burst, room) {
                let (len, segment_size) = (sealed.len, sealed.segment_size);
                bursts.add(Transmit { destination: sealed.destination, len, segment_size, ..transmit });
            }
        }
        true
    }

    /// Gathers a datagram of the layer itself.
    fn gather_own(&mut self, bursts: &mut Bursts) -> bool {
        let Some(outgoing) = self.layer.poll_transmit() else { return false };
        // Without room it is lost, as on the way.
        bursts.add_datagram(outgoing.destination, outgoing.source, &outgoing.bytes);
        true
    }

    fn report(&mut self) {
        while let Some(event) = self.layer.poll_event() {
            match event {
                Event::Established(address, side, Some(peer)) => {
                    self.failures.on_established(address, side);
                    tracing::debug!(%address, key = %peer.fingerprint, "encrypted connection established");
                }
                Event::Established(address, _, None) => {
                    tracing::debug!(%address, "encrypted connection with an anonymous client established");
                }
                Event::Failed(address, side, failure) if self.failures.is_new(address, side, &failure) => {
                    tracing::warn!(%address, error = %failure, "DTLS connection failed");
                }
                Event::Failed(address, _, failure) => {
                    tracing::debug!(%address, error = %failure, "DTLS connection failed again");
                }
                Event::ClientFailed(address, failure, unlogged) => {
                    tracing::warn!(%address, error = %failure, unlogged, "DTLS connection of a client failed");
                }
                Event::NotEncrypted(address) => {
                    tracing::warn!(
                        %address,
                        "a peer without encryption was refused: it needs a key too, or this side must not encrypt"
                    );
                }
                Event::Learned(host) => {
                    // Whoever uses first use should see the key once.
                    tracing::warn!(
                        name = host.name,
                        key = %host.fingerprint,
                        "first use: the server is a known host from now on; `strandline keygen --show` there prints its key"
                    );
                    if let Some(on_learned) = &self.on_learned {
                        on_learned.learned(&host);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns when the next timer of an engine, or of its encryption, is due.
pub(crate) fn next_timeout(engine: &Engine, secure: Option<&Secure>) -> Option<Time> {
    let secure = secure.and_then(Secure::poll_timeout);
    engine.poll_timeout().into_iter().chain(secure).min()
}

/// Returns whether an INIT of an association was sent to the last address that may be its peer's.
fn is_last_address(engine: &Engine, destination: SocketAddr, init: &PacketStart) -> bool {
    let address = zone::key(destination);
    let found = engine.find(init.local_port, address, init.peer_port);
    let found = found.filter(|id| engine.status(*id).is_some_and(|status| status.local_tag.0 == init.tag));
    let paths = found.and_then(|id| engine.paths(id)).unwrap_or_default();
    let may_work =
        |path: &PathStatus| path.state == Reachability::Active && zone::key(path.address) != address;
    found.is_some() && !paths.iter().any(may_work)
}

/// Returns whether a train may reach the engine: an INIT must not concern an association with another peer.
fn may_pass(engine: &Engine, layer: &Layer, train: &Train<'_>) -> bool {
    let Some(init) = train.init else { return true };
    let Ok(packet) = Packet::parse(train.bytes) else { return false };
    let source = zone::key(train.arrival.source);
    let (local, peer) = (packet.destination_port(), packet.source_port());
    let named = init.addresses.iter().filter_map(|address| zone::named_by(*address, source));
    let named = named.filter_map(|address| find_named(engine, local, address, peer));
    engine.find(local, source, peer).into_iter().chain(named).all(|found| {
        let tag = engine.status(found).map(|status| status.local_tag.0);
        tag.is_none_or(|tag| layer.may_set_up(init, tag))
    })
}
