#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use super::*;

#[test]
fn one_address_and_several() {
    let one = listen("10.1.0.1:9899").unwrap();
    assert_eq!(one, Listen { socket: "10.1.0.1:9899".parse().unwrap(), addresses: Vec::new() });
    let all = listen("[::]:9899").unwrap();
    assert_eq!(all, Listen { socket: "[::]:9899".parse().unwrap(), addresses: Vec::new() });
    let two = listen("10.1.0.1:9899, 10.11.0.1:9899").unwrap();
    assert_eq!(two.socket, "0.0.0.0:9899".parse().unwrap());
    assert_eq!(two.addresses, ["10.1.0.1", "10.11.0.1"].map(|text| text.parse::<IpAddr>().unwrap()));
    let mixed = listen("10.1.0.1:9899,[2001:db8::1]:9899").unwrap();
    assert_eq!(mixed.socket, "[::]:9899".parse().unwrap());
}

#[test]
fn wrong_addresses_are_named() {
    for (text, named) in [
        ("nowhere", "nowhere"),
        ("10.1.0.1:1,10.11.0.1:2", "10.11.0.1:2"),
        ("10.1.0.1:1,10.1.0.1:1", "twice"),
        ("10.1.0.1:1,0.0.0.0:1", "0.0.0.0"),
        ("10.1.0.1:1,", "listen"),
        (
            "10.0.0.1:1,10.0.0.2:1,10.0.0.3:1,10.0.0.4:1,10.0.0.5:1,10.0.0.6:1,10.0.0.7:1,10.0.0.8:1,10.0.0.9:1",
            "8",
        ),
    ] {
        let error = listen(text).unwrap_err().to_string();
        assert!(error.contains(named), "{text}: {error}");
    }
}
