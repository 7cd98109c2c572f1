use super::*;

/// Returns the sum over an IPv4 header, which is all ones if its checksum is correct.
fn sum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[test]
fn ecn_capable_ipv4_packets_are_marked_validly() {
    for tos in 0..=255_u8 {
        let mut header = [0x45, tos, 0, 0x3c, 0x1c, 0x46, 0x40, 0, 0x40, 17, 0, 0, 10, 0, 1, 1, 10, 0, 1, 2];
        let checksum = !sum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(sum(&header), 0xffff);
        let capable = tos & 0b11 != 0;
        assert_eq!(mark(&mut header), capable, "{tos:#x}");
        assert_eq!(header[1], if capable { tos | 0b11 } else { tos });
        assert_eq!(sum(&header), 0xffff, "{tos:#x}");
    }
}

#[test]
fn ipv6_packets_are_marked_in_the_traffic_class() {
    let mut capable = [0x60, 0x20, 0, 0];
    assert!(mark(&mut capable));
    assert_eq!(capable, [0x60, 0x30, 0, 0]);
    let mut not = [0x6f, 0xcf, 0xff, 0xff];
    assert!(!mark(&mut not));
    assert_eq!(not, [0x6f, 0xcf, 0xff, 0xff]);
}

#[test]
fn non_ip_packets_stay_unchanged() {
    for bytes in [&mut [][..], &mut [0x45], &mut [0, 1, 2]] {
        assert!(!mark(bytes));
    }
}
