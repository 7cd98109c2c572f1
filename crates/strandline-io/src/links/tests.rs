use super::*;
use crate::ipv4::{Ipv4Packet, sum};

#[test]
fn headers_are_what_the_receiving_side_takes() {
    let (source, destination) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 255));
    for len in [0, 12, 1_480, 65_515] {
        let header = header(source, destination, 64, 0, len).unwrap();
        assert_eq!(sum(&header), 0xffff);
        let packet = [&header[..], &vec![5; len]].concat();
        let parsed = Ipv4Packet::of(&packet).unwrap();
        assert_eq!((parsed.destination, parsed.ecn, parsed.payload.len()), (destination, 0, len));
        assert_eq!(header[6..8], [0x40, 0], "don't fragment");
    }
    assert_eq!(header(source, destination, 64, 0, 65_516), None);
}

#[test]
fn a_known_header_has_the_known_checksum() {
    // Computed by hand by the method of RFC 1071: 4500 003c 1c46 4000 4006 .. ac10 0a63 ac10 0a0c has b1e6.
    let bytes = [
        0x45, 0, 0, 0x3c, 0x1c, 0x46, 0x40, 0, 0x40, 6, 0, 0, 0xac, 0x10, 0x0a, 0x63, 0xac, 0x10, 0x0a, 0x0c,
    ];
    assert_eq!(!sum(&bytes), 0xb1e6);
}
