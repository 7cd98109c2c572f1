//! Packets that are built at once: all except DATA, SACK and the COOKIE chunks, which `transmit` bundles.

use strandline_wire::cause::Causes;
use strandline_wire::chunk::{Abort, Pad};
use strandline_wire::number::VerificationTag;
use strandline_wire::{CHUNK_HEADER_LEN, Encode, PacketBuilder};

use super::Association;
use super::context::{PacketQueue, Route, Shared};
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
    pub(crate) fn finish(self, packet: PacketBuilder<'_>) -> usize {
        if self.zero_checksum { packet.finish_with_zero_checksum() } else { packet.finish() }
    }
}

/// Maximum length of packets with control chunks, in bytes: what every network carries. It is the minimum MTU of IPv6
/// (RFC 8200 section 5) less the headers of IPv6 and UDP.
pub(crate) const CONTROL_PACKET_LEN_MAX: usize = 1280 - 40 - 8;

/// Queues a packet with one chunk.
pub(crate) fn control_packet(queue: &mut PacketQueue, route: Route, ports: Ports, chunk: &impl Encode) {
    queue.push(route, CONTROL_PACKET_LEN_MAX, |buffer| {
        let mut packet = ports.packet(buffer);
        if packet.push(chunk) { ports.finish(packet) } else { 0 }
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
        let whole = Abort { tag_reflected: reflected, causes: Causes::new(causes) };
        // Causes that do not fit are left out: the ABORT itself matters more.
        let bare = Abort { tag_reflected: reflected, causes: Causes::new(&[]) };
        if packet.push(&whole) || packet.push(&bare) { ports.finish(packet) } else { 0 }
    });
}

impl Association {
    /// Returns the route of packets on a path.
    pub(crate) fn route(&self, index: PathIndex) -> Route {
        let path = self.paths.get(index);
        Route { destination: path.remote, source: path.local }
    }

    /// Queues a SACK of its own if one is due for earlier packets that no packet has carried yet. Called before
    /// another packet is processed in strict RFC 9260 mode (section 6.2).
    pub(crate) fn acknowledge_each(&mut self, cx: &mut Shared, now: Time) {
        let waits = self.state.receives_data() && self.inbound.sack_due(now);
        // The COOKIE ACK comes first.
        if !waits || self.flags.cookie_ack_due {
            return;
        }
        let index = self.path_of_sacks();
        let (route, ports, size) = (self.route(index), self.ports(), self.paths.get(index).payload_max());
        let mut sacks = 0;
        let len_max = self.sack_len_max(now, index);
        cx.control.push(route, size, |buffer| {
            let mut packet = ports.packet(buffer);
            self.write_ecne(&mut packet);
            sacks += u32::from(self.inbound.write_sack(now, &mut packet, len_max));
            if packet.is_empty() { 0 } else { ports.finish(packet) }
        });
        self.stats.sacks_sent += sacks;
        self.stats.packets_sent += u64::from(sacks);
    }

    /// Queues a packet with one chunk on a path.
    pub(super) fn send_control(&self, cx: &mut Shared, path: PathIndex, chunk: &impl Encode) {
        control_packet(&mut cx.control, self.route(path), self.ports(), chunk);
    }
}

/// Writes a PAD chunk (RFC 4820) into all the room that the chunk to be retransmitted leaves.
pub(super) fn pad_oversize(association: &mut Association, packet: &mut PacketBuilder<'_>) {
    let size = association.outbound.retransmission().map_or(usize::MAX, |again| again.size);
    if let Some(spare) = packet.remaining().checked_sub(size + CHUNK_HEADER_LEN) {
        let pushed = packet.push(&Pad { padding_len: spare });
        debug_assert!(pushed, "it fills what is left over");
    }
}
