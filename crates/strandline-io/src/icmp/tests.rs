use super::*;

#[test]
fn destination_unreachable_codes_of_icmp() {
    let kind = |code| IcmpKind::from_v4(V4_UNREACHABLE, code, 1400, true);
    assert_eq!(kind(0), Some(IcmpKind::HostUnreachable));
    assert_eq!(kind(1), Some(IcmpKind::HostUnreachable));
    assert_eq!(kind(2), Some(IcmpKind::ProtocolUnreachable));
    assert_eq!(kind(3), Some(IcmpKind::ProtocolUnreachable));
    assert_eq!(kind(4), Some(IcmpKind::PacketTooBig { mtu: 1400 }));
    assert_eq!(kind(13), Some(IcmpKind::HostUnreachable));
    assert_eq!(kind(16), None);
    assert_eq!(IcmpKind::from_v4(11, 0, 0, true), None, "time exceeded is not for SCTP (ICMP1)");
}

#[test]
fn port_unreachable_counts_only_with_encapsulation() {
    assert_eq!(IcmpKind::from_v4(V4_UNREACHABLE, 3, 0, false), None);
    assert_eq!(IcmpKind::from_v6(V6_UNREACHABLE, 4, 0, false), None);
    assert_eq!(IcmpKind::from_v6(V6_UNREACHABLE, 4, 0, true), Some(IcmpKind::ProtocolUnreachable));
}

#[test]
fn icmpv6_messages() {
    assert_eq!(IcmpKind::from_v6(V6_TOO_BIG, 0, 1280, false), Some(IcmpKind::PacketTooBig { mtu: 1280 }));
    assert_eq!(IcmpKind::from_v6(V6_PARAMETER_PROBLEM, 1, 0, false), Some(IcmpKind::ProtocolUnreachable));
    assert_eq!(IcmpKind::from_v6(V6_PARAMETER_PROBLEM, 0, 0, false), None, "ICMP4");
    assert_eq!(IcmpKind::from_v6(V6_UNREACHABLE, 3, 0, false), Some(IcmpKind::HostUnreachable));
    assert_eq!(IcmpKind::from_v6(129, 0, 0, false), None, "an echo reply is not for SCTP (ICMP2)");
}
