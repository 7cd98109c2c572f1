use super::*;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Splits a capture into blocks, each with its type and body. Checks both lengths of each block.
fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut blocks = Vec::new();
    while !bytes.is_empty() {
        let len = u32_at(bytes, 4) as usize;
        assert_eq!(len % 4, 0);
        assert_eq!(u32_at(bytes, len - 4) as usize, len);
        blocks.push((u32_at(bytes, 0), bytes[8..len - 4].to_vec()));
        bytes = &bytes[len..];
    }
    blocks
}

/// Splits options into code and value. The list must end with the end option and have nothing after it.
fn options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut options = Vec::new();
    loop {
        let (code, len) = (u16_at(bytes, 0), usize::from(u16_at(bytes, 2)));
        let value = bytes[4..4 + len].to_vec();
        bytes = &bytes[4 + len.next_multiple_of(4)..];
        if code == OPTION_END {
            assert!(bytes.is_empty());
            return options;
        }
        options.push((code, value));
    }
}

fn capture(records: &[Record<'_>]) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new()).unwrap();
    for record in records {
        writer.write(record).unwrap();
    }
    writer.into_inner()
}

/// Returns the one captured packet, from its IP header on.
fn captured(record: &Record<'_>) -> Vec<u8> {
    let (kind, body) = blocks(&capture(&[*record])).remove(2);
    assert_eq!(kind, ENHANCED_PACKET);
    body[20..20 + u32_at(&body, 12) as usize].to_vec()
}

fn record<'a>(source: &str, destination: &str, packet: &'a [u8]) -> Record<'a> {
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    Record { timestamp: Duration::ZERO, source, destination, packet, comment: "" }
}

#[test]
fn section_and_interface() {
    let blocks = blocks(&capture(&[]));
    let [(SECTION_HEADER, section), (INTERFACE_DESCRIPTION, interface)] = &blocks[..] else {
        panic!("{blocks:x?}")
    };
    assert_eq!(section[..4], [0x4d, 0x3c, 0x2b, 0x1a]);
    assert_eq!(section[4..8], [1, 0, 0, 0], "version 1.0");
    assert_eq!(section[8..16], [0xff; 8], "length not given");
    assert_eq!(options(&section[16..]), [(4, b"Strandline".to_vec())]);
    assert_eq!(interface[..8], [101, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(options(&interface[8..]), [(2, b"Strandline".to_vec()), (9, vec![9])]);
}

#[test]
fn enhanced_packet() {
    let timestamp = Duration::new(1_700_000_000, 123_456_789);
    for comment in ["", "lost", "lost!"] {
        let record = Record { timestamp, comment, ..record("10.0.0.1:0", "10.0.0.2:0", &[1, 2, 3]) };
        let (kind, body) = blocks(&capture(&[record])).remove(2);
        assert_eq!(kind, ENHANCED_PACKET);
        assert_eq!(u32_at(&body, 0), 0, "interface");
        let time_ns = u64::from(u32_at(&body, 4)) << 32 | u64::from(u32_at(&body, 8));
        assert_eq!(time_ns, 1_700_000_000_123_456_789);
        assert_eq!((u32_at(&body, 12), u32_at(&body, 16)), (23, 23));
        assert_eq!(body[40..44], [1, 2, 3, 0], "packet and padding");
        match comment {
            "" => assert_eq!(body.len(), 44),
            _ => assert_eq!(options(&body[44..]), [(1, comment.as_bytes().to_vec())]),
        }
    }
}

#[test]
fn long_comments_are_cut_between_characters() {
    let comment = "ä".repeat(501);
    let comment = format!("x{comment}");
    let record = Record { comment: &comment, ..record("10.0.0.1:0", "10.0.0.2:0", &[1, 2, 3, 4]) };
    let (_, body) = blocks(&capture(&[record])).remove(2);
    let [(1, shown)] = &options(&body[44..])[..] else { panic!("one comment expected") };
    assert_eq!(*shown, comment.as_bytes()[..999]);
}

#[test]
fn ipv4_without_encapsulation() {
    let bytes = captured(&record("10.0.0.1:0", "10.0.0.2:0", &[0xaa; 12]));
    let expected = [0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 132, 0x26, 0x58, 10, 0, 0, 1, 10, 0, 0, 2];
    assert_eq!(bytes[..20], expected);
    assert_eq!(bytes[20..], [0xaa; 12]);
    assert_eq!(internet_checksum(words_sum(&bytes[..20])), 0);
}

#[test]
fn ipv4_in_udp() {
    let bytes = captured(&record("10.0.0.1:9899", "10.0.0.2:1234", &[0xaa; 13]));
    assert_eq!(bytes[9], 17);
    assert_eq!(bytes[20..26], [0x26, 0xab, 4, 210, 0, 21]);
    // The sum over pseudo header, UDP header with its checksum, and data is zero.
    let sum = words_sum(&bytes[12..20]) + 17 + 21 + words_sum(&bytes[20..]);
    assert_eq!(internet_checksum(sum), 0);
}

#[test]
fn ipv6_with_and_without_udp() {
    let bytes = captured(&record("[2001:db8::1]:0", "[2001:db8::2]:0", &[0xaa; 12]));
    assert_eq!(bytes[..8], [0x60, 0, 0, 0, 0, 12, 132, 64]);
    assert_eq!((bytes[23], bytes[39], bytes.len()), (1, 2, 52));
    let bytes = captured(&record("[2001:db8::1]:9899", "[2001:db8::2]:9899", &[0xaa; 12]));
    assert_eq!(bytes[..8], [0x60, 0, 0, 0, 0, 20, 17, 64]);
    let sum = words_sum(&bytes[8..40]) + 17 + 20 + words_sum(&bytes[40..]);
    assert_eq!(internet_checksum(sum), 0);
}

#[test]
fn udp_checksum_is_never_zero() {
    // With this last word the sum is 0xffff, whose complement is zero.
    let sum_of_rest = 0x0a00 + 1 + 0x0a00 + 2 + 17 + 2 * (8 + 2) + 2 * 9899;
    let last = 0xffff_u16 - sum_of_rest;
    let bytes = captured(&record("10.0.0.1:9899", "10.0.0.2:9899", &last.to_be_bytes()));
    assert_eq!(bytes[26..28], [0xff, 0xff]);
}

#[test]
fn families() {
    let mapped = captured(&record("[::ffff:10.0.0.1]:0", "[::ffff:10.0.0.2]:0", &[1]));
    assert_eq!(mapped[0], 0x45, "mapped addresses are IPv4");
    let mixed = captured(&record("10.0.0.1:0", "[2001:db8::2]:0", &[1]));
    assert_eq!(mixed[0], 0x60);
    assert_eq!(mixed[8..24], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]);
}

#[test]
fn limits() {
    let mut writer = PcapngWriter::new(Vec::new()).unwrap();
    let packet = vec![0; 65_536];
    let mut refuses = |record: &Record<'_>| {
        assert_eq!(writer.write(record).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    };
    refuses(&record("10.0.0.1:0", "10.0.0.2:0", &packet[..65_516]));
    refuses(&record("10.0.0.1:1", "10.0.0.2:1", &packet[..65_508]));
    refuses(&record("[2001:db8::1]:0", "[2001:db8::2]:0", &packet));
    refuses(&Record { timestamp: Duration::MAX, ..record("10.0.0.1:0", "10.0.0.2:0", &[]) });
    writer.write(&record("10.0.0.1:0", "10.0.0.2:0", &packet[..65_515])).unwrap();
    writer.write(&record("[2001:db8::1]:0", "[2001:db8::2]:0", &packet[..65_535])).unwrap();
    assert!(writer.write_ip(Duration::ZERO, &vec![0; 65_576]).is_err());
    writer.write_ip(Duration::ZERO, &[0x45, 1, 2, 3, 4]).unwrap();
    writer.flush().unwrap();
    let blocks = blocks(&writer.into_inner());
    assert_eq!(blocks.len(), 5, "section, interface and the three that were not refused");
    assert_eq!(blocks[4].1[20..], [0x45, 1, 2, 3, 4, 0, 0, 0]);
}
