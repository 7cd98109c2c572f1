use super::*;

fn datagram(words: u8, total: u16, protocol: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[0] = 0x40 | words;
    bytes[1] = 0b0000_0011;
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    bytes[9] = protocol;
    bytes[16..20].copy_from_slice(&[192, 0, 2, 9]);
    bytes
}

#[test]
fn headers_are_stripped_with_their_options() {
    for (words, total, header, payload) in [(5, 64, 20, 44), (8, 50, 32, 18), (5, 9_999, 20, 44)] {
        let bytes = datagram(words, total, PROTOCOL);
        let packet = Ipv4Packet::of(&bytes).unwrap();
        assert_eq!((packet.header.len(), packet.payload.len()), (header, payload));
        assert_eq!(packet.destination, Ipv4Addr::new(192, 0, 2, 9));
        assert_eq!(packet.ecn, 3);
    }
}

#[test]
fn what_is_no_header_is_none() {
    assert_eq!(Ipv4Packet::of(&datagram(4, 64, PROTOCOL)), None);
    assert_eq!(Ipv4Packet::of(&datagram(15, 40, PROTOCOL)), None);
    assert_eq!(Ipv4Packet::of(&datagram(5, 64, 17)), None);
    assert_eq!(Ipv4Packet::of(&[0x60; 64]), None);
    for len in 0..HEADER_LEN {
        assert_eq!(Ipv4Packet::of(&datagram(5, 64, PROTOCOL)[..len]), None);
    }
}
