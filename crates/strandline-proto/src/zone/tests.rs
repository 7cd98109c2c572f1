use super::*;

fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn zones_tell_link_local_addresses_apart() {
    let (one, two) = (socket("[fe80::1%1]:9"), socket("[fe80::1%2]:9"));
    assert_ne!(key(one), key(two));
    assert_eq!((zone_of(key(one)), bare(key(one))), (1, ip("fe80::1")));
    for address in [one, two, socket("[fe80::1%4294967295]:9"), socket("[fe80::1]:9")] {
        assert_eq!(outward(inward(address)), address);
    }
}

#[test]
fn wider_addresses_have_no_zone() {
    let plain = socket("[2001:db8::1]:9");
    for (flow, scope) in [(0, 3), (7, 0), (7, 3)] {
        let odd = SocketAddr::V6(SocketAddrV6::new("2001:db8::1".parse().unwrap(), 9, flow, scope));
        assert_eq!(inward(odd), plain);
    }
    assert_eq!(outward(plain), plain);
    assert_eq!(inward(socket("192.0.2.1:9")), socket("192.0.2.1:9"));
    let with_flow = SocketAddr::V6(SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 7, 3));
    assert_eq!(inward(with_flow), inward(socket("[fe80::1%3]:9")));
}

#[test]
fn nobody_forges_a_zone() {
    for text in ["[fe80:0:3::1]:9", "[fe80:0:3::1%4]:9", "[fe80:0:0:1::1]:9", "[fe81::1]:9"] {
        assert_eq!(key(socket(text)), IpAddr::V6(Ipv6Addr::UNSPECIFIED), "{text}");
    }
    let source = key(socket("[fe80::2%4]:9"));
    assert_eq!(named_by(ip("fe80:0:3::1"), source), None);
    assert_eq!(named_by(ip("fe80::1"), source), Some(key(socket("[fe80::1%4]:9"))));
    assert_eq!(named_by(ip("fe80::1"), ip("::1")), None);
    assert_eq!(named_by(ip("fe80::1"), ip("169.254.0.1")), None);
    assert_eq!(named_by(ip("2001:db8::1"), source), Some(ip("2001:db8::1")));
}

#[test]
fn own_addresses_are_named_on_their_link() {
    let own = key(socket("[fe80::1%2]:9"));
    assert!(on_link_of(own, key(socket("[fe80::2%2]:9"))));
    assert!(!on_link_of(own, key(socket("[fe80::2%3]:9"))));
    assert!(!on_link_of(own, ip("2001:db8::2")) && !on_link_of(own, ip("::1")));
    assert!(on_link_of(ip("fe80::1"), key(socket("[fe80::2%3]:9"))));
    assert!(on_link_of(ip("2001:db8::1"), key(socket("[fe80::2%3]:9"))));
}
