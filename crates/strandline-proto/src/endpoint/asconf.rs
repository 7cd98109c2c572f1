//! Packets of associations with dynamic addresses (RFC 5061), which may come from an address that is to be added.

use core::net::IpAddr;

use strandline_wire::Packet;
use strandline_wire::chunk::{Chunk, kind};
use strandline_wire::parameter::asconf::AsconfParameter;

use super::Endpoint;
use super::demux::PeerKey;
use super::diagnostics::discarded;
use super::look_up::find_held;
use crate::association::asconf::{may_come_from_anywhere, note_local};
use crate::association::asconf_state::is_leaving;
use crate::association::{Association, contains};
use crate::event::Datagram;
use crate::path_index::PathIndex;
use crate::time::Time;

/// Maximum number of addresses of a packet that are looked up.
const NAMED_MAX: usize = 64;

/// How a packet of an association that has agreed on dynamic addresses is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// As any other.
    Usual,
    /// It may change addresses.
    Reindex,
    /// It is dropped.
    Drop,
}

/// Decides about a packet of an association that has agreed on dynamic addresses, which came `from` one of the peer's
/// addresses or from another one.
#[cold]
pub(super) fn treatment(
    association: &mut Association,
    packet: &Packet<'_>,
    datagram: &Datagram<'_>,
    from: Option<PathIndex>,
) -> Treatment {
    if ignores_abort(association, packet, datagram) {
        return Treatment::Drop;
    }
    if let (Some(path), Some(local)) = (from, datagram.destination) {
        note_local(association, path, local);
    }
    let is_known = from.is_some() && contains(packet, kind::ASCONF);
    if is_known || (from.is_none() && may_come_from_anywhere(association, packet)) {
        return Treatment::Reindex;
    }
    Treatment::Usual
}

/// True for a packet with an ABORT to a local address that is being deleted: the peer, which has deleted it, may have
/// taken an earlier packet from it for one of no association (section 5.3.1).
#[cold]
pub(super) fn ignores_abort(association: &Association, packet: &Packet<'_>, datagram: &Datagram<'_>) -> bool {
    let ignores =
        datagram.destination.is_some_and(|to| is_leaving(association, to)) && contains(packet, kind::ABORT);
    if ignores {
        discarded(datagram, "an ABORT to an address that is being deleted");
    }
    ignores
}

/// Delivers a packet that may change the addresses of its association.
#[cold]
#[inline(never)]
pub(super) fn deliver_reindexed(
    endpoint: &mut Endpoint,
    now: Time,
    slot: u32,
    packet: &Packet<'_>,
    datagram: &Datagram<'_>,
) {
    if contains(packet, kind::ASCONF) {
        let named = named_in(packet).chain([datagram.source.ip()]);
        let taken = named.filter(|address| has_another(endpoint, slot, *address, packet));
        endpoint.context.taken = taken.collect();
    }
    endpoint.with_reindex(now, slot, |association, cx| {
        if association.config.to_the_letter && !association.state.in_setup() {
            association.acknowledge_each(cx, now);
        }
        let source = (datagram.source, association.paths.by_address(datagram.source.ip()));
        association.handle_packet_from(cx, now, packet, source, datagram.is_marked());
    });
    endpoint.context.taken.clear();
}

/// True if an association other than that in the slot has the address and the packet's ports.
fn has_another(endpoint: &Endpoint, slot: u32, address: IpAddr, packet: &Packet<'_>) -> bool {
    let (peer_port, local_port) = (packet.source_port(), packet.destination_port());
    let found = find_held(endpoint, &PeerKey { address, peer_port, local_port });
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
