//! Packets that are built at once: all except DATA, SACK and the COOKIE chunks, which `transmit` bundles.

use strandline_wire::cause::Causes;
use strandline_wire::chunk::{Abort, Pad};
use strandline_wire::number::VerificationTag;
use strandline_wire::{CHUNK_HEADER_LEN, Encode, PacketBuilder};

use super::auth::Auth;
use super::context::{EndpointContext, PacketQueue, Route};
use super::features::Extensions;
use super::{Association, auth};
use crate::inbound::stream_credit::write_sack;
use crate::packet_sizes::CONTROL_PACKET_LEN_MAX;
use crate::path::{PathState, cut_max};
use crate::path_index::PathIndex;
use crate::time::Time;

/// The fields of the common header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    pub(crate) tag: VerificationTag,
    /// True if the receiver accepts packets with a checksum of zero.
    pub(crate) zero_checksum: bool,
}

impl Ports {
    pub(crate) fn packet(self, buffer: &mut [u8]) -> PacketBuilder<'_> {
        PacketBuilder::new(buffer, self.source, self.destination, self.tag)
    }

    /// Finishes the packet with or without a checksum, and returns its length.
    #[inline]
    pub(crate) fn finish(self, packet: PacketBuilder<'_>) -> usize {
        if self.zero_checksum { packet.finish_with_zero_checksum() } else { packet.finish() }
    }
}

/// Queues a packet with one chunk.
pub(crate) fn control_packet(queue: &mut PacketQueue, route: Route, ports: Ports, chunk: &impl Encode) {
    queue.push(route, CONTROL_PACKET_LEN_MAX, |buffer| {
        let mut packet = ports.packet(buffer);
        if packet.push(chunk) { ports.finish(packet) } else { 0 }
    });
}

/// Queues a packet with one chunk in answer to a State Cookie that makes no association, behind AUTH if its
/// peer wants that (RFC 4895 section 6.2).
pub(crate) fn cookie_answer(
    queue: &mut PacketQueue,
    route: Route,
    ports: Ports,
    auth: Option<&Auth>,
    chunk: &impl Encode,
) {
    let reserve = auth::reserve_of(auth, chunk.kind());
    queue.push(route, CONTROL_PACKET_LEN_MAX, |buffer| {
        let room = buffer.len().saturating_sub(reserve);
        let mut packet = ports.packet(buffer.split_at_mut(room).0);
        if !packet.push(chunk) {
            return 0;
        }
        let len = packet.finish_with_zero_checksum();
        auth::seal_answer(auth, buffer, len, !ports.zero_checksum)
    });
}

/// Queues an ABORT with encoded causes.
pub(crate) fn abort_packet(
    queue: &mut PacketQueue,
    route: Route,
    ports: Ports,
    causes: &[u8],
    reflected: bool,
) {
    queue.push(route, CONTROL_PACKET_LEN_MAX, |buffer| {
        let mut packet = ports.packet(buffer);
        if push_abort(&mut packet, causes, reflected) { ports.finish(packet) } else { 0 }
    });
}

/// Writes an ABORT. Causes that do not fit are left out: the ABORT itself matters more.
fn push_abort(packet: &mut PacketBuilder<'_>, causes: &[u8], reflected: bool) -> bool {
    let whole = Abort { tag_reflected: reflected, causes: Causes::new(causes) };
    let bare = Abort { tag_reflected: reflected, causes: Causes::new(&[]) };
    packet.push(&whole) || packet.push(&bare)
}

impl Association {
    /// Returns the route of packets on a path.
    pub(crate) fn route(&self, index: PathIndex) -> Route {
        let path = self.paths.get(index);
        Route { destination: path.remote, source: path.local }
    }

    /// Returns the path of answers to a packet: back to its source (section 6.4), unless that address is unconfirmed.
    /// Only HEARTBEATs, and answers to them, are sent to such an address (section 5.4).
    pub(super) fn path_of_answer(&self, from: PathIndex) -> PathIndex {
        // An ASCONF in the packet may have removed the address.
        let confirmed = self.paths.find(from).is_some_and(|path| path.state != PathState::Unconfirmed);
        if confirmed { from } else { self.paths.data_path().unwrap_or(self.control_path) }
    }

    /// Queues a SACK of its own if one is due for earlier packets that no packet has carried yet. Called before
    /// another packet is processed in strict RFC 9260 mode (section 6.2).
    pub(crate) fn acknowledge_each(&mut self, cx: &mut EndpointContext, now: Time) {
        let waits = self.state.receives_data() && self.inbound.sack_due(now);
        // The COOKIE ACK comes first.
        if !waits || self.flags.cookie_ack_due {
            return;
        }
        let index = self.path_of_sacks();
        let (route, ports, size) = (self.route(index), self.ports(), self.paths.get(index).payload_max());
        let mut sacks = 0;
        let keeps = self.features.has(Extensions::NR_SACK);
        let (len_max, reserve) = (self.sack_len_max(now, index), auth::reserve(self));
        cx.control.push(route, size, |buffer| {
            let room = buffer.len().saturating_sub(reserve);
            let mut packet = ports.packet(buffer.split_at_mut(room).0);
            self.write_ecne(&mut packet);
            sacks += u32::from(write_sack(&mut self.inbound, now, &mut packet, len_max, keeps));
            match packet.is_empty() {
                true => 0,
                false => {
                    let len = packet.finish_with_zero_checksum();
                    auth::seal(self, buffer, len, !ports.zero_checksum)
                }
            }
        });
        self.stats.sacks_sent += sacks;
        self.stats.packets_sent += u64::from(sacks);
    }

    /// Queues a packet with one chunk on a path.
    pub(super) fn send_control(&self, cx: &mut EndpointContext, path: PathIndex, chunk: &impl Encode) {
        push_control(self, cx, self.route(path), CONTROL_PACKET_LEN_MAX, |packet| packet.push(chunk));
    }
}

/// Queues a packet of an association, of at most `size` bytes, whose chunks `build` writes; none if it returns false.
pub(super) fn push_control(
    association: &Association,
    cx: &mut EndpointContext,
    route: Route,
    size: usize,
    build: impl FnOnce(&mut PacketBuilder<'_>) -> bool,
) {
    if association.flags.sourceless {
        return; // Timers send it again.
    }
    let reserve = auth::reserve(association);
    let path = association.paths.by_address(route.destination.ip()).map(|index| association.paths.get(index));
    let size_max = path.map_or(u16::MAX, cut_max);
    cx.control.push_cut(route, size, size_max, |buffer| finish_control(association, buffer, reserve, build));
}

/// Writes a packet whose chunks `build` writes, with `reserve` bytes left for authentication. Returns its length; 0 if
/// `build` returns false.
pub(super) fn finish_control(
    association: &Association,
    buffer: &mut [u8],
    reserve: usize,
    build: impl FnOnce(&mut PacketBuilder<'_>) -> bool,
) -> usize {
    let ports = association.ports();
    let room = buffer.len().saturating_sub(reserve);
    let mut packet = ports.packet(buffer.split_at_mut(room).0);
    if !build(&mut packet) {
        return 0;
    }
    let len = packet.finish_with_zero_checksum();
    auth::seal(association, buffer, len, !ports.zero_checksum)
}

/// Queues an ABORT of an association with encoded causes.
pub(super) fn abort(association: &Association, cx: &mut EndpointContext, route: Route, causes: &[u8]) {
    push_control(association, cx, route, CONTROL_PACKET_LEN_MAX, |packet| push_abort(packet, causes, false));
}

/// What a packet may contain besides COOKIE ACK.
#[derive(Debug, Clone, Copy)]
pub(super) struct Content {
    /// DATA: its path is the path of data.
    pub(super) data: bool,
    /// A SACK: its path is the path of SACKs.
    pub(super) sack: bool,
}

/// Builds one packet into `room`, as [`Association::write_packet`] does, with authentication if the peer demands it.
#[inline]
pub(super) fn build_packet(
    association: &mut Association,
    now: Time,
    index: PathIndex,
    content: Content,
    room: &mut [u8],
    full: usize,
) -> usize {
    if association.features.has(Extensions::AUTHENTICATION) {
        return build_sealed(association, now, index, content, room, full);
    }
    association.write_packet(now, index, content, room, full)
}

#[cold]
#[inline(never)]
fn build_sealed(
    association: &mut Association,
    now: Time,
    index: PathIndex,
    content: Content,
    room: &mut [u8],
    full: usize,
) -> usize {
    let reserve = auth::reserve(association);
    let inner = room.split_at_mut(room.len().saturating_sub(reserve)).0;
    let full = full.saturating_sub(reserve);
    let len = association.write_packet(now, index, content, inner, full);
    auth::seal(association, room, len, !association.ports().zero_checksum)
}

/// Writes a PAD chunk (RFC 4820) into all the room that the chunk to be retransmitted leaves.
pub(super) fn pad_oversize(association: &mut Association, packet: &mut PacketBuilder<'_>) {
    let size = association.outbound.retransmission().map_or(usize::MAX, |again| again.size);
    if let Some(spare) = packet.remaining().checked_sub(size + CHUNK_HEADER_LEN) {
        let pushed = packet.push(&Pad { padding_len: spare });
        debug_assert!(pushed, "it fills what is left over");
    }
}
