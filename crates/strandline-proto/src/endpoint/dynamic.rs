//! Packets of associations with dynamic addresses (RFC 5061), which may come from an address that is to be added.

use core::net::IpAddr;

use strandline_wire::Packet;
use strandline_wire::chunk::{Chunk, kind};
use strandline_wire::parameter::asconf::AsconfParameter;

use super::Endpoint;
use super::demux::PeerKey;
use super::diagnostics::discarded;
use crate::association::asconf::{may_come_from_anywhere, note_local};
use crate::association::contains;
use crate::association::dynamic::is_leaving;
use crate::event::Datagram;
use crate::time::Time;

/// Maximum number of addresses of a packet that are looked up.
const NAMED_MAX: usize = 64;

/// Handles a packet of an association that has agreed on dynamic addresses, if it needs other treatment than the
/// packets of other associations. Returns false if it does not.
#[cold]
pub(super) fn takes_dynamic(
    endpoint: &mut Endpoint,
    now: Time,
    slot: u32,
    packet: &Packet<'_>,
    datagram: &Datagram<'_>,
) -> bool {
    if ignores_abort(endpoint, slot, packet, datagram) {
        return true;
    }
    let Some(association) = endpoint.table.at_mut(slot) else { return false };
    let from = association.paths.by_address(datagram.source.ip());
    if let (Some(path), Some(local)) = (from, datagram.destination) {
        note_local(association, path, local);
    }
    if !contains(packet, kind::ASCONF) {
        return false;
    }
    if from.is_none() && !may_come_from_anywhere(association, packet) {
        return false;
    }
    let named = named_in(packet).chain([datagram.source.ip()]);
    let taken: Vec<IpAddr> = named.filter(|address| has_another(endpoint, slot, *address, packet)).collect();
    endpoint.shared.taken = taken;
    endpoint.with_reindex(now, slot, |association, shared| {
        if association.config.to_the_letter {
            association.acknowledge_each(shared, now);
        }
        let source = (datagram.source, from);
        association.handle_packet_from(shared, now, packet, source, datagram.is_marked());
    });
    endpoint.shared.taken.clear();
    true
}

/// True for a packet with an ABORT to a local address that is being deleted: the peer, which has deleted it, may have
/// taken an earlier packet from it for one of no association (section 5.3.1).
pub(super) fn ignores_abort(
    endpoint: &Endpoint,
    slot: u32,
    packet: &Packet<'_>,
    datagram: &Datagram<'_>,
) -> bool {
    let Some(association) = endpoint.table.at(slot) else { return false };
    let ignores =
        datagram.destination.is_some_and(|to| is_leaving(association, to)) && contains(packet, kind::ABORT);
    if ignores {
        discarded(datagram, "an ABORT to an address that is being deleted");
    }
    ignores
}

/// True if an association other than that in the slot has the address and the packet's ports.
fn has_another(endpoint: &Endpoint, slot: u32, address: IpAddr, packet: &Packet<'_>) -> bool {
    let (peer_port, local_port) = (packet.source_port(), packet.destination_port());
    let found = endpoint.find_by_peer(&PeerKey { address, peer_port, local_port });
    found.is_some_and(|found| found != slot)
}
/// Returns the addresses that the ASCONF chunks of a packet ask to add.
fn named_in<'a>(packet: &'a Packet<'a>) -> impl Iterator<Item = IpAddr> + 'a {
    let asconfs = packet.chunks().map_while(Result::ok).filter_map(|raw| match raw.parse() {
        Ok(Chunk::Asconf(asconf)) => Some(asconf.parameters),
        _ => None,
    });
    let added = asconfs.flat_map(|parameters| parameters.iter().map_while(Result::ok));
    let added = added.filter_map(|raw| match raw.parse_asconf() {
        Some(Ok(AsconfParameter::AddIp { address, .. })) => Some(address),
        _ => None,
    });
    added.take(NAMED_MAX)
}
