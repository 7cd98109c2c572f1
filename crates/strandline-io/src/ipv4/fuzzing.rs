//! Any bytes as a packet of a raw socket.

use super::{HEADER_LEN, Ipv4Packet, PROTOCOL, sum};

/// Parses a packet: header and payload follow each other, within the bytes and the length that the header states. A
/// header with the complement of its sum as checksum has the sum of a correct one.
pub fn run(bytes: &[u8]) {
    let Some(packet) = Ipv4Packet::of(bytes) else { return };
    let Ipv4Packet { destination, ecn, header, payload } = packet;
    assert!((HEADER_LEN..=60).contains(&header.len()) && header.len() % 4 == 0);
    assert!(bytes.starts_with(header));
    assert!(bytes.get(header.len()..).is_some_and(|rest| rest.starts_with(payload)));
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    assert_eq!(header.len() + payload.len(), total.min(bytes.len()));
    assert_eq!((header[0] >> 4, header[9], header[1] & 3), (4, PROTOCOL, ecn));
    assert_eq!(header[16..20], destination.octets());
    let mut summed = header.to_vec();
    summed[10..12].fill(0);
    let checksum = !sum(&summed);
    summed[10..12].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(sum(&summed), 0xffff);
}
