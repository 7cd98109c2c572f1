use super::*;
use crate::chunk::kind;

/// 5000 > 5001, SHUTDOWN ACK, without checksum.
const SHUTDOWN_ACK: [u8; 16] = [0x13, 0x88, 0x13, 0x89, 0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, 8, 0, 0, 4];

/// CRC32c by definition (RFC 9260 appendix A): reflected polynomial, one bit at a time.
fn crc32c_by_bits(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

/// Type, flags and value of a chunk.
type Fields = (u8, u8, Vec<u8>);

fn with_chunks(chunks: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; COMMON_HEADER_LEN];
    bytes.extend_from_slice(chunks);
    bytes
}

fn frame(chunks: &[u8]) -> Vec<Result<Fields, FramingError>> {
    let bytes = with_chunks(chunks);
    let packet = Packet::parse(&bytes).unwrap();
    packet.chunks().map(|chunk| chunk.map(|c| (c.kind, c.flags, c.value.to_vec()))).collect()
}

#[test]
fn common_header_fields() {
    let packet = Packet::parse(&SHUTDOWN_ACK).unwrap();
    assert_eq!(packet.source_port(), 5000);
    assert_eq!(packet.destination_port(), 5001);
    assert_eq!(packet.verification_tag(), VerificationTag(0x1234_5678));
    assert_eq!(packet.checksum(), 0);
}

#[test]
fn shorter_than_the_common_header() {
    for len in 0..COMMON_HEADER_LEN {
        assert_eq!(Packet::parse(&SHUTDOWN_ACK[..len]).unwrap_err(), PacketError::TooShort { len });
    }
    assert!(Packet::parse(&SHUTDOWN_ACK[..COMMON_HEADER_LEN]).is_ok());
}

#[test]
fn checksum_least_significant_byte_first() {
    let mut bytes = SHUTDOWN_ACK;
    let expected = crc32c_by_bits(&bytes);
    bytes[8..12].copy_from_slice(&expected.to_le_bytes());
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!(packet.checksum(), expected);
    assert!(packet.verify_checksum());
}

#[test]
fn checksum_of_every_length_agrees_with_the_definition() {
    // Lengths around the thresholds of the vectorised code, at all alignments within 8 bytes.
    let bytes: Vec<u8> = (0..2000_u32).map(|i| (i * 31 + 7) as u8).collect();
    for start in 0..8 {
        for len in (12..300).chain(370..400).chain(1440..1470) {
            let mut packet = bytes[start..start + len].to_vec();
            packet[8..12].fill(0);
            let crc = crc32c_by_bits(&packet);
            packet[8..12].copy_from_slice(&crc.to_le_bytes());
            assert!(Packet::parse(&packet).unwrap().verify_checksum(), "length {len} at {start}");
        }
    }
}

#[test]
fn any_flipped_bit_breaks_the_checksum() {
    let mut bytes = SHUTDOWN_ACK;
    let crc = crc32c_by_bits(&bytes);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(!Packet::parse(&damaged).unwrap().verify_checksum(), "bit {bit}");
    }
}

#[test]
fn no_chunks() {
    assert_eq!(frame(&[]), []);
}

#[test]
fn padding_is_skipped_and_excluded() {
    let chunks = [10, 0, 0, 5, 0xaa, 1, 2, 3, 11, 7, 0, 4];
    assert_eq!(frame(&chunks), [Ok((kind::COOKIE_ECHO, 0, vec![0xaa])), Ok((kind::COOKIE_ACK, 7, vec![]))]);
}

#[test]
fn final_padding_may_be_missing() {
    for padding in 0..=3 {
        let mut chunks = vec![10, 0, 0, 5, 0xaa];
        chunks.resize(5 + padding, 0);
        assert_eq!(frame(&chunks), [Ok((kind::COOKIE_ECHO, 0, vec![0xaa]))], "{padding} bytes of padding");
    }
}

#[test]
fn length_below_the_header_ends_the_walk() {
    for length in 0..4 {
        let chunks = [11, 0, 0, 4, 10, 0, 0, length, 11, 0, 0, 4];
        assert_eq!(
            frame(&chunks),
            [
                Ok((kind::COOKIE_ACK, 0, vec![])),
                Err(FramingError::LengthTooSmall { kind: 10, length: u16::from(length) })
            ]
        );
    }
}

#[test]
fn length_beyond_the_packet_ends_the_walk() {
    assert_eq!(
        frame(&[10, 0, 0, 9, 1, 2, 3, 4]),
        [Err(FramingError::LengthBeyondEnd { kind: 10, length: 9, remaining: 8 })]
    );
    assert_eq!(
        frame(&[10, 0, 0xff, 0xff, 1, 2, 3, 4]),
        [Err(FramingError::LengthBeyondEnd { kind: 10, length: 65_535, remaining: 8 })]
    );
    assert_eq!(frame(&[10, 0, 0, 8, 1, 2, 3, 4]), [Ok((kind::COOKIE_ECHO, 0, vec![1, 2, 3, 4]))]);
}

#[test]
fn fewer_bytes_than_a_chunk_header() {
    for left in 1..4 {
        let mut chunks = vec![11, 0, 0, 4];
        chunks.extend(vec![0; left]);
        assert_eq!(
            frame(&chunks),
            [Ok((kind::COOKIE_ACK, 0, vec![])), Err(FramingError::HeaderTruncated { remaining: left })]
        );
    }
}

#[test]
fn the_raw_chunk_keeps_its_bytes_for_reports() {
    let bytes = with_chunks(&[0xc3, 0x5a, 0, 6, 1, 2, 0, 0]);
    let chunk = Packet::parse(&bytes).unwrap().chunks().next().unwrap().unwrap();
    assert_eq!(chunk.as_bytes(), [0xc3, 0x5a, 0, 6, 1, 2]);
    assert_eq!((chunk.kind, chunk.flags, chunk.value), (0xc3, 0x5a, &[1, 2][..]));
}
