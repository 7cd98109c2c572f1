#![allow(clippy::unwrap_used)]

use super::*;

fn settings(address: &str) -> Result<NodeSettings, ConfigError> {
    let table = Table { name: Some("a".to_owned()), address: Some(address.to_owned()), ..Table::default() };
    let mut errors = ConfigErrors::default();
    let checked = check(&table, &mut errors);
    errors.finish().map(|()| checked.unwrap())
}

#[test]
fn zone_of_a_node_stays_here() {
    for (text, address, zone) in [
        ("tcp:[fe80::1%3]:5060", "tcp:[fe80::1]:5060", 3),
        ("udp:[fe80::1%lo]:5061", "udp:[fe80::1]:5061", 1),
        ("tcp:[2001:db8::1]:5060", "tcp:[2001:db8::1]:5060", 0),
        ("tcp:192.0.2.1:5060", "tcp:192.0.2.1:5060", 0),
    ] {
        let settings = settings(text).unwrap();
        assert_eq!((settings.address.as_str(), settings.zone), (address, zone));
        // What another node reads is on the link to this one.
        let theirs = NodeAddress::read(&settings.address).unwrap().on_link(zone);
        assert_eq!(theirs, read(text).unwrap());
    }
}

#[test]
fn zone_is_needed_by_link_local_addresses_only() {
    for (text, reason) in [
        ("tcp:[fe80::1]:5060", "as in fe80::1%eth0"),
        ("tcp:[2001:db8::1%lo]:5060", "not link-local"),
        ("tcp:[fe80::1%no-such-link]:5060", "not a network interface"),
        ("tcp:[fe80::1%lo]", "expected an address such as"),
        ("sctp[::1]:5060", "expected an address such as"),
        ("tcp:[::]:5060", "expected an address such as"),
    ] {
        let error = settings(text).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
