use super::*;

#[test]
fn zones_by_name_and_by_number() {
    let parse = |text: &str| text.parse::<Address>();
    let (name, index) = interfaces().unwrap().into_iter().find(|(name, _)| name == "lo").unwrap();
    assert_eq!(parse(&format!("fe80::1%{name}")), Ok(Address::in_zone([0xfe80, 0, 0, 0, 0, 0, 0, 1], index)));
    assert_eq!(parse("fe80::1%4711").unwrap().zone(), 4711);
    assert_eq!(parse("fe80::1").unwrap().zone(), 0);
    assert_eq!(parse("192.0.2.1").unwrap(), Address::from([192, 0, 2, 1]));
}

#[test]
fn errors_name_what_is_known() {
    let error = |text: &str| text.parse::<Address>().unwrap_err().to_string();
    let unknown = error("fe80::1%nowhere0");
    assert!(unknown.contains("nowhere0") && unknown.contains("lo (1)"), "{unknown}");
    assert!(error("2001:db8::1%lo").contains("2001:db8::1 is not link-local"));
    assert!(error("host").contains("\"host\" is not an IP address"));
    assert!(error("fe80::1%0").contains("\"0\" is not a network interface"));
    assert!(error("fe80::1%").contains("\"\" is not a network interface"));
}

#[test]
fn only_link_local_addresses_have_zones() {
    let global = Address::of("[2001:db8::1%3]:9899".parse().unwrap());
    assert_eq!(global, "2001:db8::1".parse().unwrap());
    let v6 = |address: Address| address.with_port(5).to_string();
    assert_eq!(v6(global), "[2001:db8::1]:5");
    assert_eq!(v6(Address::of("[fe80::1%3]:9899".parse().unwrap())), "[fe80::1%3]:5");
}

#[test]
fn socket_addresses_with_zones() {
    let parsed = |text: &str| socket_address(text).map(|address| address.to_string());
    let (name, index) = interfaces().unwrap().into_iter().find(|(name, _)| name == "lo").unwrap();
    assert_eq!(parsed(&format!("[fe80::1%{name}]:9899")), Ok(format!("[fe80::1%{index}]:9899")));
    for text in ["192.0.2.7:0", "[::]:9899", "[2001:db8::7]:65535", "[fe80::7%3]:1"] {
        assert_eq!(parsed(text).as_deref(), Ok(text));
    }
    for text in
        ["", ":", "192.0.2.7", "fe80::1%lo:5", "[fe80::1%lo]", "[192.0.2.7]:5", "[::]:65536", "host:5"]
    {
        assert_eq!(socket_address(text), Err(ParseAddressError::NoSocketAddress(text.to_owned())));
    }
    let no_zone = parsed("[fe80::7]:1").unwrap_err().to_string();
    assert!(no_zone.ends_with("add the interface, as in fe80::7%eth0"), "{no_zone}");
    assert!(matches!(parsed("[fe80::1%nowhere0]:5"), Err(ParseAddressError::UnknownZone { .. })));
}

#[test]
fn mapped_addresses_are_ipv4() {
    let ipv4 = Address::from([192, 0, 2, 7]);
    let mapped = Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped();
    assert_eq!(Address::from(mapped), ipv4);
    assert_eq!(Address::in_zone(mapped, 3), ipv4);
    assert_eq!(Address::of(SocketAddr::new(mapped.into(), 9899)), ipv4);
    assert_eq!("::ffff:192.0.2.7".parse(), Ok(ipv4));
    let socket = socket_address("[::ffff:192.0.2.7]:9899");
    assert_eq!(socket.map(|socket| socket.to_string()).as_deref(), Ok("192.0.2.7:9899"));
}
