use super::*;

fn of(address: &str) -> Network {
    Network::of(address.parse().unwrap())
}

#[test]
fn customers_are_told_apart() {
    assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
    assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    assert_eq!(of("2001:db8::1"), of("2001:db8::2:0:0:1"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    // Networks whose first bits are those of an IPv4 address.
    for (v4, v6) in [("192.0.2.1", "0:0:c000:201::1"), ("0.0.0.0", "::192.0.2.1"), ("0.0.0.0", "::1")] {
        assert_ne!(of(v4), of(v6), "{v6}");
    }
}
