use super::*;

#[test]
fn written_messages_are_read_again() {
    let mut control = Control::<CONTROL_BYTES>::EMPTY;
    let end = control.put_source(0, "2001:db8::1".parse().unwrap());
    let end = control.put_segment_size(end, 1452);
    assert!(end <= CONTROL_BYTES);
    let found: Vec<_> =
        control.messages(end).map(|(level, kind, payload)| (level, kind, payload.len())).collect();
    assert_eq!(found, [(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20), (libc::SOL_UDP, libc::UDP_SEGMENT, 2)]);
    let destination = Ancillary::read(control.messages(end)).destination;
    assert_eq!(destination, Some("2001:db8::1".parse().unwrap()));
}

#[test]
fn a_mapped_source_is_written_as_ipv4() {
    let mut control = Control::<CONTROL_BYTES>::EMPTY;
    let end = control.put_source(0, "::ffff:192.0.2.1".parse().unwrap());
    let (level, kind, payload) = control.messages(end).next().unwrap();
    assert_eq!(
        (level, kind, payload),
        (libc::IPPROTO_IP, libc::IP_PKTINFO, &[0, 0, 0, 0, 192, 0, 2, 1, 0, 0, 0, 0][..])
    );
}

#[test]
fn broken_messages_end_the_iteration() {
    let mut control = Control::<CONTROL_BYTES>::EMPTY;
    let end = control.put_segment_size(0, 7);
    for len in 0..end {
        assert!(control.messages(len).count() <= 1);
    }
    // A length shorter than the header, and one beyond the end.
    for len in [1_u8, 200] {
        control.bytes[offset_of!(libc::cmsghdr, cmsg_len)] = len;
        assert_eq!(control.messages(end).count(), 0);
    }
}
