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
    assert!(error("host").contains("\"host\" is no IP address"));
    assert!(error("fe80::1%0").contains("\"0\" is no network interface"));
    assert!(error("fe80::1%").contains("\"\" is no network interface"));
}

#[test]
fn only_link_local_addresses_have_zones() {
    let global = Address::of("[2001:db8::1%3]:9899".parse().unwrap());
    assert_eq!(global, "2001:db8::1".parse().unwrap());
    let v6 = |address: Address| address.with_port(5).to_string();
    assert_eq!(v6(global), "[2001:db8::1]:5");
    assert_eq!(v6(Address::of("[fe80::1%3]:9899".parse().unwrap())), "[fe80::1%3]:5");
}
