//! What tests ask about packets, and change in them.

use bytes::Bytes;
use strandline_wire::{Chunk, Data, IData, PACKET_LEN_MAX, Packet, PacketBuilder};

/// Returns the types of a packet's chunks, in order.
#[must_use]
pub fn chunk_kinds(bytes: &[u8]) -> Vec<u8> {
    Packet::parse(bytes)
        .map(|packet| packet.chunks().flatten().map(|chunk| chunk.kind).collect())
        .unwrap_or_default()
}

/// Returns a predicate for [`Pair::drop_next`](super::Pair::drop_next): packets with a chunk of this type.
pub fn with_chunk(kind: u8) -> impl FnMut(&Packet<'_>) -> bool + 'static {
    move |packet| packet.chunks().flatten().any(|chunk| chunk.kind == kind)
}

/// Returns the packet without requests for immediate acknowledgement.
pub(super) fn without_i_bits(bytes: &Bytes) -> Bytes {
    let Ok(packet) = Packet::parse(bytes) else { return bytes.clone() };
    let mut buffer = vec![0; PACKET_LEN_MAX];
    let (from, to) = (packet.source_port(), packet.destination_port());
    let mut builder = PacketBuilder::new(&mut buffer, from, to, packet.verification_tag());
    for raw in packet.chunks().flatten() {
        let pushed = match raw.parse() {
            Ok(Chunk::Data(data)) => builder.push(&Data { immediate: false, ..data }),
            Ok(Chunk::IData(data)) => builder.push(&IData { immediate: false, ..data }),
            _ => builder.push(&raw),
        };
        assert!(pushed, "it was a packet");
    }
    let len = builder.finish();
    buffer.truncate(len);
    buffer.into()
}
