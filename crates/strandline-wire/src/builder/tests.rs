use super::*;
use crate::chunk::{CookieAck, CookieEcho, Data, Pad, Shutdown, kind, sack};
use crate::number::{Ppid, Ssn, StreamId, Tsn};
use crate::packet::Packet;

const TAG: VerificationTag = VerificationTag(0xdead_beef);

fn data(payload: &[u8]) -> Data<'_> {
    Data { ppid: Ppid(0x090a_0b0c), ..Data::whole(Tsn(0x0102_0304), StreamId(0x0506), Ssn(0x0708), payload) }
}

#[test]
fn bytes_of_a_packet() {
    // The buffer's old content must not show in the packet, padding included.
    let mut buffer = [0xff; 64];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, TAG);
    assert!(builder.is_empty());
    assert!(builder.push(&data(b"hello")));
    assert!(!builder.is_empty());
    assert_eq!(builder.len(), 36);
    assert_eq!(builder.finish_with_zero_checksum(), 36);
    let expected = [
        0, 1, 0, 2, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0, // common header
        0, 3, 0, 21, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, b'h', b'e', b'l', b'l', b'o', 0, 0, 0,
    ];
    assert_eq!(buffer[..36], expected);
    assert_eq!(buffer[36..], [0xff; 28]);
}

#[test]
fn finished_packets_have_a_right_checksum() {
    for len in 0..1400 {
        let payload = vec![0x5a; len];
        let mut buffer = [0; 1500];
        let mut builder = PacketBuilder::new(&mut buffer, 1, 2, TAG);
        assert!(builder.push(&data(&payload)));
        let len = builder.finish();
        assert_eq!(len % 4, 0);
        assert!(Packet::parse(&buffer[..len]).unwrap().verify_checksum());
    }
}

#[test]
fn oversized_chunk_leaves_the_packet_unchanged() {
    let mut buffer = [0; 12 + 8 + 20];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, TAG);
    assert_eq!(builder.remaining(), 28);
    assert!(builder.push(&Shutdown { cumulative_tsn: Tsn(1) }));
    assert_eq!(builder.remaining(), 20);
    assert!(!builder.push(&data(b"hello")), "16 + 5 + 3 bytes into 20");
    assert_eq!(builder.remaining(), 20);
    assert!(builder.push(&data(b"hell")));
    assert_eq!(builder.remaining(), 0);
    assert!(!builder.push(&CookieAck));
    let len = builder.finish();
    let packet = Packet::parse(&buffer[..len]).unwrap();
    assert!(packet.verify_checksum());
    let kinds: Vec<u8> = packet.chunks().map(|chunk| chunk.unwrap().kind).collect();
    assert_eq!(kinds, [kind::SHUTDOWN, kind::DATA]);
}

#[test]
fn padding_must_fit_too() {
    let mut buffer = [0; 12 + 7];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, TAG);
    assert_eq!(builder.remaining(), 4, "only whole multiples of four count");
    assert!(!builder.push(&CookieEcho { cookie: &[1] }));
    assert!(builder.push(&CookieAck));
    assert_eq!(builder.finish(), 16);
}

#[test]
fn buffer_below_header_size_takes_nothing() {
    for len in 0..COMMON_HEADER_LEN {
        let mut buffer = vec![0xff; len];
        let mut builder = PacketBuilder::new(&mut buffer, 1, 2, TAG);
        assert_eq!((builder.remaining(), builder.len()), (0, 0));
        assert!(builder.is_empty());
        assert!(!builder.push(&CookieAck));
        assert_eq!(builder.finish(), 0);
        assert_eq!(buffer, vec![0xff; len]);
    }
}

#[test]
fn nothing_longer_than_16_bits_of_length() {
    let mut buffer = vec![0; 200_000];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, TAG);
    assert_eq!(builder.remaining(), PACKET_LEN_MAX - COMMON_HEADER_LEN);
    assert!(!builder.push(&Pad { padding_len: usize::MAX }));
    assert!(!builder.push(&Pad { padding_len: 65_532 }));
    assert!(builder.push(&Pad { padding_len: PACKET_LEN_MAX - COMMON_HEADER_LEN - 4 }));
    assert_eq!(builder.finish(), PACKET_LEN_MAX);
}

#[test]
fn a_sack_takes_the_room_there_is() {
    let gaps = (0..100).map(|i| sack::GapBlock { start: 2 + 3 * i, end: 3 + 3 * i });
    let duplicates: Vec<Tsn> = (0..100).map(Tsn).collect();
    for (room, gap_count, duplicate_count) in
        [(16, 0, 0), (20, 1, 0), (16 + 400, 100, 0), (16 + 408, 100, 2), (1200, 100, 100)]
    {
        let mut buffer = vec![0; COMMON_HEADER_LEN + room];
        let mut builder = PacketBuilder::new(&mut buffer, 1, 2, TAG);
        assert!(sack::write(&mut builder, Tsn(9), 77, gaps.clone(), &duplicates));
        let len = builder.finish();
        let raw = Packet::parse(&buffer[..len]).unwrap().chunks().next().unwrap().unwrap();
        let crate::chunk::Chunk::Sack(sack) = raw.parse().unwrap() else { panic!("not a SACK") };
        assert_eq!((sack.cumulative_tsn(), sack.a_rwnd()), (Tsn(9), 77));
        assert_eq!(sack.gap_blocks().collect::<Vec<_>>(), gaps.clone().take(gap_count).collect::<Vec<_>>());
        assert_eq!(sack.duplicates().collect::<Vec<_>>(), duplicates[..duplicate_count]);
    }
    let mut buffer = [0; COMMON_HEADER_LEN + 12];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, TAG);
    assert!(!sack::write(&mut builder, Tsn(9), 77, gaps, &duplicates));
    assert!(builder.is_empty());
}

#[test]
fn the_largest_sack() {
    let gaps = core::iter::repeat_n(sack::GapBlock { start: 1, end: 1 }, 70_000);
    let mut buffer = vec![0; PACKET_LEN_MAX];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, TAG);
    assert!(sack::write(&mut builder, Tsn(9), 77, gaps, &[Tsn(3)]));
    assert_eq!(builder.remaining(), 0);
    let len = builder.finish();
    assert!(Packet::parse(&buffer[..len]).unwrap().chunks().next().unwrap().unwrap().parse().is_ok());
}
