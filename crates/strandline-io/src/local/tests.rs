use super::*;

#[test]
fn scopes() {
    let scope = |text: &str| Scope::of(text.parse().unwrap());
    for (text, expected) in [
        ("127.8.9.1", Scope::Loopback),
        ("::1", Scope::Loopback),
        ("::ffff:127.0.0.1", Scope::Loopback),
        ("169.254.1.1", Scope::LinkLocal),
        ("fe80::1", Scope::LinkLocal),
        ("10.1.2.3", Scope::Private),
        ("100.64.0.1", Scope::Private),
        ("100.128.0.1", Scope::Global),
        ("fd00::1", Scope::Private),
        ("192.0.2.1", Scope::Global),
        ("2001:db8::1", Scope::Global),
    ] {
        assert_eq!(scope(text), expected, "{text}");
    }
}

#[test]
fn peer_is_offered_only_reachable_addresses() {
    let local = |(text, interface_index): (&str, u32)| {
        let address: IpAddr = text.parse().unwrap();
        LocalAddress { address, scope: Scope::of(address), interface: String::new(), interface_index }
    };
    let all = [
        ("127.0.0.1", 1),
        ("169.254.7.7", 2),
        ("fe80::a", 2),
        ("fe80::b", 3),
        ("192.168.1.2", 2),
        ("192.0.2.2", 3),
    ];
    let locals = all.map(local);
    let towards = |peer: &str| -> Vec<String> {
        addresses_towards(peer.parse().unwrap(), &locals).iter().map(ToString::to_string).collect()
    };
    assert_eq!(towards("198.51.100.1:0"), ["192.0.2.2"]);
    assert_eq!(towards("192.168.1.77:0"), ["192.168.1.2", "192.0.2.2"]);
    assert_eq!(towards("[fe80::c%3]:0"), ["169.254.7.7", "fe80::b", "192.168.1.2", "192.0.2.2"]);
    assert_eq!(towards("127.0.0.1:0").len(), all.len());
}

#[test]
fn flags_of_ipv6_addresses_are_read() {
    let table = "00000000000000000000000000000001 01 80 10 80       lo\n\
        fd770000000000000000000000000001 02 40 00 c0     eth0\n\
        fd770000000000000000000000000002 02 40 00 a0     eth0\n\
        fd770000000000000000000000000003 02 40 00 88     eth0\nbroken\n";
    let expected: Vec<Ipv6Addr> = ["fd77::1", "fd77::2", "fd77::3"].map(|text| text.parse().unwrap()).into();
    assert_eq!(unusable_v6(table), expected);
}
