use super::*;

const HERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

fn header() -> Header {
    Header { source: HERE, destination: THERE, protocol: 17, identification: 0x1234, tos: 2 }
}

/// Reassembles fragments as a receiver does.
fn join(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (number, packet) in packets.iter().enumerate() {
        assert_eq!(packet[..2], [0x45, 2]);
        assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len());
        assert_eq!(packet[4..6], [0x12, 0x34]);
        let field = u16::from_be_bytes([packet[6], packet[7]]);
        assert_eq!(field & 0x2000 != 0, number + 1 < packets.len(), "more fragments");
        assert_eq!(field & 0x4000, 0, "may be fragmented further");
        assert_eq!(usize::from(field & 0x1fff) * 8, payload.len());
        payload.extend_from_slice(&packet[20..]);
    }
    payload
}

#[test]
fn fragments_keep_to_the_size() {
    let payload: Vec<u8> = (0..4000_u32).map(|byte| byte as u8).collect();
    for size in [0, 28, 68, 576, 577, 583, 700, 1200, 1400, 65_535] {
        for len in [1, 8, 9, 556, 557, 1480, 4000] {
            let packets: Vec<_> = fragments(&header(), &payload[..len], size).collect();
            assert!(packets.iter().all(|packet| packet.len() <= usize::from(size.max(28))));
            assert_eq!(join(&packets), &payload[..len]);
        }
    }
    assert_eq!(fragments(&header(), &payload[..1480], 576).count(), 3);
}

#[test]
fn udp_checksums_are_right() {
    // The sum over pseudo-header and datagram must be all ones.
    for bytes in [&b""[..], b"x", b"hello", &[0xff; 301]] {
        let datagram = udp_datagram((HERE, 9899), (THERE, 9898), bytes).unwrap();
        let mut summed = [&HERE.octets()[..], &THERE.octets(), &[0, 17], &datagram[4..6]].concat();
        summed.extend_from_slice(&datagram);
        summed.resize(summed.len().next_multiple_of(2), 0);
        assert_eq!(crate::ipv4::sum(&summed), 0xffff);
        assert_eq!(datagram[..4], [0x26, 0xab, 0x26, 0xaa]);
        assert_eq!(&datagram[8..], bytes);
    }
    assert!(udp_datagram((HERE, 1), (THERE, 2), &[0; 65_530]).is_err());
}
