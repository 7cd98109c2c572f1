//! Packets of this endpoint that come back to it because a peer listed an address that this host has too. Hosts with
//! the same private address are common. Such packets are never answered, because an answer would end the association
//! that the packet belongs to.

use core::net::IpAddr;

use strandline_wire::Packet;
use strandline_wire::chunk::Chunk;
use strandline_wire::number::VerificationTag;

use super::Endpoint;
use super::demux::PeerKey;
use super::diagnostics::discarded;
use super::look_up::find_by_peer;
use crate::association::State;
use crate::event::Datagram;
use crate::time::Time;
use crate::zone;

/// The tag that identifies the association of a looped packet.
#[derive(Debug, Clone, Copy)]
enum Mark {
    /// The verification tag, which is the peer's.
    Peer(VerificationTag),
    /// The Initiate Tag of an INIT, which is the sender's own.
    Own(VerificationTag),
}

impl Mark {
    /// Returns `None` for a packet with tag 0 that is not an INIT.
    fn of(packet: &Packet<'_>) -> Option<Self> {
        let tag = packet.verification_tag();
        if tag.0 != 0 {
            return Some(Self::Peer(tag));
        }
        match packet.chunks().next()?.ok()?.parse() {
            Ok(Chunk::Init(init)) => Some(Self::Own(init.initiate_tag)),
            _ => None,
        }
    }
}

impl Endpoint {
    /// True for a packet that an association of this endpoint sent: it has the association's ports, mirrored, and its
    /// peer's tag. The packet is dropped and counted, and nothing more is sent to its destination address.
    pub(super) fn is_own_packet(&mut self, now: Time, packet: &Packet<'_>, datagram: &Datagram<'_>) -> bool {
        let Some((slot, address)) =
            Mark::of(packet).and_then(|mark| self.sender_here(mark, packet, datagram))
        else {
            return false;
        };
        discarded(datagram, "this endpoint sent it");
        self.drop_looped(now, slot, address);
        true
    }

    /// True for an INIT of this endpoint that cannot be meant for it: the port has no listener and the association
    /// has other addresses to try, or the INIT would collide with its own association.
    pub(super) fn is_own_init(
        &mut self,
        now: Time,
        existing: Option<u32>,
        tag: VerificationTag,
        packet: &Packet<'_>,
        datagram: &Datagram<'_>,
    ) -> bool {
        let Some((slot, address)) = self.sender_here(Mark::Own(tag), packet, datagram) else { return false };
        let has_others = self.table.at(slot).is_some_and(|association| association.paths.has_several());
        let listens = self.ports.listens(packet.destination_port());
        let dropped = existing == Some(slot) || (existing.is_none() && !listens && has_others);
        if dropped {
            discarded(datagram, "this endpoint sent it");
            self.drop_looped(now, slot, address);
        }
        dropped
    }

    /// True if an association of this endpoint sent the packet: the ports match when mirrored, and the tag is its
    /// peer's, or the Initiate Tag of an INIT its own.
    #[must_use]
    pub fn has_sent(&self, packet: &Packet<'_>, datagram: &Datagram<'_>) -> bool {
        let datagram = Datagram { source: zone::inward(datagram.source), ..*datagram };
        Mark::of(packet).is_some_and(|mark| self.sender_here(mark, packet, &datagram).is_some())
    }

    /// True if an association has this tag.
    #[must_use]
    pub fn has_tag(&self, tag: VerificationTag) -> bool {
        self.demux.by_tag(tag).is_some()
    }

    /// True if the datagram comes from a known address of this host.
    #[must_use]
    pub fn is_from_here(&self, datagram: &Datagram<'_>) -> bool {
        self.has_own_source(&Datagram { source: zone::inward(datagram.source), ..*datagram })
    }

    /// As [`is_from_here`](Self::is_from_here), for a source address that includes the zone.
    pub(super) fn has_own_source(&self, datagram: &Datagram<'_>) -> bool {
        let source = datagram.source.ip();
        datagram.destination == Some(zone::bare(source)) || self.context.host_addresses.contains(source)
    }

    /// Returns the association that sent the packet, and the address that it was sent to.
    fn sender_here(&self, mark: Mark, packet: &Packet<'_>, datagram: &Datagram<'_>) -> Option<(u32, IpAddr)> {
        let (peer_port, local_port) = (packet.destination_port(), packet.source_port());
        // If both ends use the same port, packets of the real peer have mirrored ports too.
        let mirrored = || peer_port != local_port || self.has_own_source(datagram);
        // If the destination is unknown: the host sends from the address that it sends to.
        let source = datagram.source.ip();
        let address = datagram.destination.and_then(|to| zone::named_by(to, source)).unwrap_or(source);
        match mark {
            Mark::Peer(tag) => {
                let slot = find_by_peer(self, &PeerKey { address, peer_port, local_port })?;
                let association = self.table.at(slot)?;
                // An association of this endpoint with itself has one path. Its packets must not be dropped.
                let ours = association.peer_tag == tag && association.paths.has_several() && mirrored();
                ours.then_some((slot, address))
            }
            // The tag is nearly always unknown here, which is cheap to check.
            Mark::Own(tag) => {
                let slot = self.demux.by_tag(tag)?;
                let association = self.table.at(slot)?;
                let ours = matches!(association.state, State::CookieWait(_))
                    && (association.local_port, association.peer_port) == (local_port, peer_port)
                    && association.paths.by_address(address).is_some();
                (ours && mirrored()).then_some((slot, address))
            }
        }
    }

    fn drop_looped(&mut self, now: Time, slot: u32, address: IpAddr) {
        self.context.stats.looped += 1;
        let Some(association) = self.table.at_mut(slot) else { return };
        association.on_looped(&mut self.context, now, address);
        self.update_after_change(now, slot);
    }
}
