use super::*;

#[test]
fn hep_packet_layout_matches_its_specification() {
    let packet = Packet {
        protocol: 17,
        source: "192.0.2.1:5060".parse().unwrap(),
        destination: "198.51.100.2:5070".parse().unwrap(),
        at: Duration::new(0x0102_0304, 5000),
        capture_id: 2001,
        password: b"pw",
        payload: b"SIP",
    };
    let expected: &[&[u8]] = &[
        b"HEP3\x00\x6e",
        &[0, 0, 0, 1, 0, 7, 2],
        &[0, 0, 0, 2, 0, 7, 17],
        &[0, 0, 0, 3, 0, 10, 192, 0, 2, 1],
        &[0, 0, 0, 4, 0, 10, 198, 51, 100, 2],
        &[0, 0, 0, 7, 0, 8, 0x13, 0xc4],
        &[0, 0, 0, 8, 0, 8, 0x13, 0xce],
        &[0, 0, 0, 9, 0, 10, 1, 2, 3, 4],
        &[0, 0, 0, 10, 0, 10, 0, 0, 0, 5],
        &[0, 0, 0, 11, 0, 7, 1],
        &[0, 0, 0, 12, 0, 10, 0, 0, 7, 0xd1],
        &[0, 0, 0, 14, 0, 8, b'p', b'w'],
        &[0, 0, 0, 15, 0, 9, b'S', b'I', b'P'],
    ];
    let expected = expected.concat();
    assert_eq!(usize::from(expected[5]), expected.len());
    assert_eq!(packet.write().unwrap(), expected);
}

#[test]
fn what_would_be_too_long_is_none() {
    let at = "[2001:db8::1]:5060".parse().unwrap();
    let payload = vec![b'x'; 65_500];
    let packet = |len: usize| Packet {
        protocol: 6,
        source: at,
        destination: at,
        at: Duration::ZERO,
        capture_id: 0,
        password: b"",
        payload: &payload[..len],
    };
    let whole = packet(65_000).write().unwrap();
    assert_eq!(usize::from(u16::from_be_bytes([whole[4], whole[5]])), whole.len());
    assert!(packet(65_500).write().is_none());
}
