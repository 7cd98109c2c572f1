//! Input, from the datagram to its association: checks without state, then look-up by tag, then by address (RFC 9260
//! sections 8.4 and 8.5).

use core::net::{IpAddr, SocketAddr};

use strandline_wire::Packet;
use strandline_wire::chunk::{Chunk, kind};

use super::asconf::{Treatment, deliver_reindexed, ignores_abort, treatment};
use super::demux::PeerKey;
use super::look_up::find_by_peer;
use super::{Endpoint, diagnostics};
use crate::association::State;
use crate::association::auth::is_authentic;
use crate::association::context::is_unicast;
use crate::association::features::Extensions;
use crate::association::{contains, starts_with};
use crate::event::Datagram;
use crate::time::Time;
use crate::zone;

impl Endpoint {
    /// Processes a received datagram. Errors of a peer are not returned: such packets are dropped or answered as the
    /// RFC requires, and counted.
    pub fn handle_datagram(&mut self, now: Time, mut datagram: Datagram<'_>) {
        self.context.stats.packets_received += 1;
        if datagram.source.is_ipv6() {
            datagram.source = zone::inward(datagram.source);
        }
        diagnostics::received(&datagram);
        let Ok(packet) = Packet::parse(datagram.bytes) else {
            self.context.stats.malformed += 1;
            return diagnostics::discarded(&datagram, "too short");
        };
        let unicast = is_unicast(datagram.source.ip()) && datagram.destination.is_none_or(is_unicast);
        if !unicast || packet.source_port() == 0 || packet.destination_port() == 0 {
            self.context.stats.malformed += 1;
            return diagnostics::discarded(&datagram, "an address is not unicast, or a port is 0");
        }
        // Packets for other processes are ignored, including their checksums.
        if !self.answers_for(now, packet.destination_port()) {
            return diagnostics::ignored(&datagram, "a port of another process");
        }
        // The limit comes before any expensive step: one core can send more INITs than another can answer.
        if packet.verification_tag().0 == 0 && !self.charge_init(now, datagram.source.ip()) {
            return diagnostics::ignored(&datagram, "init_rate_max was reached");
        }
        let owner = self.association_of(&packet);
        if packet.checksum() == 0 && self.accepts_zero_checksum_of(owner, &packet, &datagram) {
            self.context.stats.zero_checksums_received += 1;
        } else if !packet.verify_checksum() {
            self.context.stats.checksum_errors += 1;
            return diagnostics::discarded(&datagram, "wrong checksum");
        }
        self.dispatch(now, owner, &packet, &datagram);
    }

    /// Processes datagrams of one sender that arrived together, as the kernel's GRO delivers them: `segment_size`
    /// bytes each, the last one possibly fewer. Does the same as [`handle_datagram`](Self::handle_datagram) for each,
    /// but updates timers and the queue of senders only once at the end.
    pub fn handle_datagrams(&mut self, now: Time, train: Datagram<'_>, segment_size: usize) {
        self.in_train = true;
        for bytes in train.bytes.chunks(segment_size.max(1)) {
            self.handle_datagram(now, Datagram { bytes, ..train });
        }
        self.in_train = false;
        if let Some(slot) = self.update_due.take() {
            self.update_after_change(now, slot);
        }
    }

    /// Dispatches a packet: an INIT and a COOKIE ECHO need no association, all others are looked up by tag and
    /// then by address.
    fn dispatch(&mut self, now: Time, owner: Option<u32>, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        if packet.verification_tag().0 == 0 {
            // Only an INIT has tag 0, and it must be alone (section 8.5.1 A).
            return self.handle_init(now, packet, datagram);
        }
        if echoes_cookie(packet) {
            return self.handle_cookie_echo(now, packet, datagram);
        }
        if let Some(slot) = owner {
            return self.deliver(now, slot, packet, datagram);
        }
        if self.is_own_packet(now, packet, datagram) {
            return;
        }
        match find_by_peer(self, &PeerKey::of(packet, datagram)) {
            Some(slot) => self.handle_wrong_tag(now, slot, packet, datagram),
            None => self.handle_out_of_the_blue(packet, datagram),
        }
    }

    /// Delivers a packet with our tag. From an address that is not one of the peer's, only an INIT ACK is accepted,
    /// which a multi-homed peer may send from another address.
    fn deliver(&mut self, now: Time, slot: u32, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        let Some(association) = self.table.at_mut(slot) else { return };
        let from = association.paths.by_address(datagram.source.ip());
        let in_setup = association.state.in_setup();
        let precheck = Precheck::of(packet);
        if matches!(precheck, Precheck::Bundled) {
            self.context.stats.malformed += 1;
            return diagnostics::discarded(datagram, "INIT, INIT ACK or SHUTDOWN COMPLETE is not alone");
        }
        if !association.paths.takes(datagram.destination, datagram.source.ip()) {
            self.context.stats.unknown_address += 1;
            return diagnostics::discarded(datagram, "its destination is not an address of the association");
        }
        if in_setup
            && matches!(association.state, State::CookieWait(_))
            && starts_with(packet, kind::INIT_ACK)
        {
            return deliver_reindexed(self, now, slot, packet, datagram);
        }
        if association.features.has(Extensions::DYNAMIC_ADDRESSES) {
            match treatment(association, packet, datagram, from) {
                Treatment::Usual => {}
                Treatment::Drop => return,
                Treatment::Reindex => return deliver_reindexed(self, now, slot, packet, datagram),
            }
        }
        if from.is_none() {
            self.context.stats.unknown_address += 1;
            return diagnostics::discarded(datagram, "its source is not one of the peer's addresses");
        }
        if in_setup && contains(packet, kind::SHUTDOWN_ACK) {
            // Section 8.5.1 E: handled as out of the blue, and the set-up continues.
            return self.handle_out_of_the_blue(packet, datagram);
        }
        if matches!(precheck, Precheck::TagReflected) {
            self.context.stats.wrong_tag += 1;
            return diagnostics::discarded(datagram, "wrong verification tag: the T bit is set");
        }
        if association.config.to_the_letter {
            association.acknowledge_each(&mut self.context, now);
        }
        let source = (datagram.source, from);
        association.handle_packet_from(&mut self.context, now, packet, source, datagram.is_marked());
        self.update_after_train(now, slot);
    }

    /// Handles a packet of an existing association with a tag other than ours (section 8.5.1). Only ABORT and
    /// SHUTDOWN COMPLETE with the T bit and the peer's own tag are accepted, and SHUTDOWN ACK during set-up. An ABORT
    /// from an address that was never confirmed shows only that the association is unknown there.
    fn handle_wrong_tag(&mut self, now: Time, slot: u32, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        let from_here = self.has_own_source(datagram);
        let Some(association) = self.table.at_mut(slot) else { return };
        let reflected = packet.verification_tag() == association.peer_tag;
        if association.features.has(Extensions::DYNAMIC_ADDRESSES)
            && ignores_abort(association, packet, datagram)
        {
            return;
        }
        match ending(packet) {
            Some(Chunk::Abort(_)) if !is_authentic(association, packet, kind::ABORT) => {
                return diagnostics::discarded(datagram, "an ABORT without authentication");
            }
            Some(Chunk::Abort(abort)) if abort.tag_reflected && reflected => {
                if association.refuse_address(&mut self.context, datagram.source.ip(), from_here) {
                    return self.update_after_change(now, slot);
                }
                association.on_abort(&mut self.context, now, &abort);
            }
            Some(Chunk::ShutdownComplete(complete)) if complete.tag_reflected && reflected => {
                association.on_shutdown_complete(&mut self.context, now, &complete);
            }
            _ if association.state.in_setup() && contains(packet, kind::SHUTDOWN_ACK) => {
                return self.handle_out_of_the_blue(packet, datagram);
            }
            _ => {
                self.context.stats.wrong_tag += 1;
                return diagnostics::discarded(datagram, "wrong verification tag");
            }
        }
        self.update_after_change(now, slot);
    }

    /// Updates what depends on an association now, or at the end of the current train.
    fn update_after_train(&mut self, now: Time, slot: u32) {
        let closed = self.table.at(slot).is_none_or(|association| association.state.is_closed());
        if !self.in_train || closed {
            return self.update_after_change(now, slot);
        }
        if let Some(other) = self.update_due.replace(slot)
            && other != slot
        {
            self.update_after_change(now, other);
        }
    }

    /// True if the endpoint answers packets to the port that belong to no association (section 8.4). On a shared
    /// carrier these are only its own ports, including those whose association has just ended: otherwise a peer that
    /// lost our SHUTDOWN COMPLETE or ABORT would get no answer.
    #[inline]
    pub(super) fn answers_for(&self, now: Time, port: u16) -> bool {
        self.context.config.owns_all_ports || self.ports.is_ours(now, port)
    }

    /// Returns the association with the packet's tag and ports.
    fn association_of(&self, packet: &Packet<'_>) -> Option<u32> {
        self.demux.by_tag(packet.verification_tag()).filter(|slot| self.ports_match(*slot, packet))
    }

    fn ports_match(&self, slot: u32, packet: &Packet<'_>) -> bool {
        self.table.at(slot).is_some_and(|association| {
            association.local_port == packet.destination_port()
                && association.peer_port == packet.source_port()
        })
    }

    /// True if a zero checksum is accepted: the association has declared it (RFC 9653 section 5.3). For
    /// out-of-the-blue packets it is accepted if associations declare it by default, so that a peer learns that we
    /// lost its association. INIT and COOKIE ECHO need a checksum (section 5.2).
    fn accepts_zero_checksum_of(
        &self,
        owner: Option<u32>,
        packet: &Packet<'_>,
        datagram: &Datagram<'_>,
    ) -> bool {
        if packet.verification_tag().0 == 0 || echoes_cookie(packet) {
            return false;
        }
        let slot = owner.or_else(|| find_by_peer(self, &PeerKey::of(packet, datagram)));
        match slot.and_then(|slot| self.table.at(slot)) {
            Some(association) => association.accepts_zero_checksum(),
            None => self.context.config.association.extensions.zero_checksum.is_some(),
        }
    }

    /// True if an INIT from the source would be processed now instead of being dropped because of
    /// [`init_rate_max`](crate::config::EndpointConfig::init_rate_max).
    #[must_use]
    pub fn has_time_for_init(&self, now: Time, source: IpAddr) -> bool {
        self.inits.has(now, zone::bare(source))
    }

    /// Charges an INIT to the budget, even if it is only passed to another endpoint of the host. Returns false if the
    /// budget is exhausted; the INIT must then be dropped and is counted as shed.
    pub fn charge_init(&mut self, now: Time, source: IpAddr) -> bool {
        let taken = self.inits.take(now, zone::bare(source));
        self.context.stats.inits_shed += u64::from(!taken);
        taken
    }

    /// Returns the route of an answer to a datagram.
    pub(super) fn route_back(datagram: &Datagram<'_>) -> crate::association::context::Route {
        let destination: SocketAddr = datagram.source;
        crate::association::context::Route { destination, source: datagram.destination }
    }
}

/// Returns the chunk that ends the association of a packet: a SHUTDOWN COMPLETE that is alone, or the first ABORT.
/// Control chunks may come before an ABORT; DATA and chunks that must be alone may not (section 3.3.7).
fn ending<'a>(packet: &Packet<'a>) -> Option<Chunk<'a>> {
    let mut before = 0;
    for raw in packet.chunks() {
        let raw = raw.ok()?;
        match raw.kind {
            kind::ABORT => return raw.parse().ok(),
            kind::SHUTDOWN_COMPLETE if before == 0 && packet.chunks().count() == 1 => {
                return raw.parse().ok();
            }
            kind::DATA | kind::INIT | kind::INIT_ACK | kind::SHUTDOWN_COMPLETE => return None,
            _ => before += 1,
        }
    }
    None
}

/// The result of checking the chunks before any DATA in a packet with our tag. Chunks after DATA are checked when
/// they are processed, so that packets of DATA are not parsed twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precheck {
    Fine,
    /// INIT, INIT ACK or SHUTDOWN COMPLETE is bundled with other chunks (section 6.10), or an INIT has a tag (section
    /// 8.5.1 A). The whole packet is discarded silently, as section 8.5.1 A requires for INIT: with an ABORT, one
    /// stray packet could end the association.
    Bundled,
    /// The first ABORT or SHUTDOWN COMPLETE has the T bit, which means a reflected tag, so our own tag is wrong
    /// (section 8.5.1 B, C).
    TagReflected,
}

impl Precheck {
    #[inline]
    fn of(packet: &Packet<'_>) -> Self {
        match packet.first_kind() {
            Some(kind::DATA) => Self::Fine, // Nearly all packets.
            _ => Self::of_control(packet),
        }
    }

    fn of_control(packet: &Packet<'_>) -> Self {
        let mut reflected = None;
        for raw in packet.chunks().flatten().take_while(|raw| raw.kind != kind::DATA) {
            match raw.kind {
                kind::INIT => return Self::Bundled,
                kind::INIT_ACK | kind::SHUTDOWN_COMPLETE if packet.chunks().nth(1).is_some() => {
                    return Self::Bundled;
                }
                kind::ABORT | kind::SHUTDOWN_COMPLETE => {
                    reflected.get_or_insert(raw.flags & 1 != 0);
                }
                _ => {}
            }
        }
        if reflected == Some(true) { Self::TagReflected } else { Self::Fine }
    }
}

/// True if the packet begins with COOKIE ECHO, or with AUTH and COOKIE ECHO (RFC 4895 section 6.3).
#[inline]
fn echoes_cookie(packet: &Packet<'_>) -> bool {
    let place = match packet.first_kind() {
        Some(kind::DATA) => return false, // Nearly all packets.
        Some(kind::COOKIE_ECHO) => 0,
        Some(kind::AUTH) => 1,
        _ => return false,
    };
    matches!(packet.chunks().nth(place), Some(Ok(raw)) if raw.kind == kind::COOKIE_ECHO)
}

/// True if the packet must never be answered (section 8.4 rule 2).
pub(super) fn never_answered(packet: &Packet<'_>) -> bool {
    contains(packet, kind::ABORT)
}
