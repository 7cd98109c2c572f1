use super::*;

fn claim(first: u16, last: u16, address: Option<&str>) -> Claim {
    Claim { first, last, address: address.map(|address| address.parse().unwrap()) }
}

#[test]
fn names_are_read_as_they_are_written() {
    let all = [claim(5_060, 5_060, None), claim(0, u16::MAX, Some("::1")), claim(1, 2, Some("192.0.2.1"))];
    for claim in all {
        assert_eq!(Claim::parse(&claim.name()), Some(claim));
    }
    for name in ["strandline-sctp/", "strandline-sctp/1-2", "strandline-sctp/1-70000/*", "other/1-2/*"] {
        assert_eq!(Claim::parse(name), None);
    }
}

#[test]
fn overlapping_claims_exclude_each_other() {
    let wide = claim(100, 199, None);
    assert!(wide.overlaps(&claim(199, 300, None)) && claim(1, 100, None).overlaps(&wide));
    assert!(!wide.overlaps(&claim(200, 300, None)) && !claim(1, 99, None).overlaps(&wide));
    assert!(wide.overlaps(&claim(150, 150, Some("192.0.2.1"))));
    let one = claim(7, 7, Some("192.0.2.1"));
    assert!(!one.overlaps(&claim(7, 7, Some("192.0.2.2"))) && one.overlaps(&claim(7, 8, Some("192.0.2.1"))));
}

#[test]
fn claims_are_found_among_other_sockets() {
    let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
        0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/some socket\n\
        0000000000000000: 00000002 00000000 00000000 0002 01 12346 @strandline-sctp/5060-5060/*\n\
        0000000000000000: 00000002 00000000 00000000 0002 01 12347\n\
        0000000000000000: 00000003 00000000 00000000 0001 03 12348 @/tmp/.X11-unix/X0\n";
    assert_eq!(claims(text).collect::<Vec<_>>(), [claim(5_060, 5_060, None)]);
}

#[test]
fn the_message_names_the_port() {
    let message = LockError::InUse { ports: 5_060..=5_060 }.to_string();
    assert!(message.contains("SCTP port 5060 is in use"), "{message}");
}
