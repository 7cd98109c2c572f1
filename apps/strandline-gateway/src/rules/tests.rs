use std::net::SocketAddr;

use super::{Network, Rule, Rules};
use crate::protocol::Destination;

fn rules(texts: &[&str]) -> Rules {
    Rules::new(texts.iter().map(|text| text.parse().unwrap()).collect())
}

/// Whether a list allows a destination, of which a name stands for the address.
fn allows(texts: &[&str], asked: &str, address: &str) -> bool {
    let asked: Destination = asked.parse().unwrap();
    let address = SocketAddr::new(address.parse().unwrap(), asked.port);
    rules(texts).allow(&asked, address, false)
}

#[test]
fn nothing_is_allowed_by_default() {
    assert!(!allows(&[], "192.0.2.1:80", "192.0.2.1"));
    assert!(!rules(&[]).may_resolve("example.com", 80));
    assert!(!rules(&[]).allow_listen("127.0.0.1:80".parse().unwrap()));
}

#[test]
fn addresses_and_networks_allow_what_they_contain() {
    assert!(allows(&["192.0.2.1:80"], "192.0.2.1:80", "192.0.2.1"));
    assert!(!allows(&["192.0.2.1:80"], "192.0.2.1:81", "192.0.2.1"));
    assert!(!allows(&["192.0.2.1:80"], "192.0.2.2:80", "192.0.2.2"));
    assert!(allows(&["10.0.0.0/8:8000-8100"], "10.255.0.1:8100", "10.255.0.1"));
    assert!(!allows(&["10.0.0.0/8:8000-8100"], "11.0.0.1:8100", "11.0.0.1"));
    assert!(allows(&["[2001:db8::/32]:*"], "[2001:db8:1::1]:22", "2001:db8:1::1"));
    assert!(!allows(&["[2001:db8::/32]:*"], "[2001:db9::1]:22", "2001:db9::1"));
    assert!(allows(&["10.0.0.0/8:80"], "[::ffff:10.0.0.1]:80", "::ffff:10.0.0.1"));
}

#[test]
fn names_allow_what_they_stand_for() {
    assert!(allows(&["db.example:5432"], "DB.example:5432", "192.0.2.1"));
    assert!(!allows(&["db.example:5432"], "192.0.2.1:5432", "192.0.2.1"));
    assert!(allows(&["*.example:*"], "db.example:1", "192.0.2.1"));
    assert!(!allows(&["*.example:*"], "example:1", "192.0.2.1"));
    assert!(!allows(&["*.example:*"], "bad-example:1", "192.0.2.1"));
    // A rule for addresses holds whatever the name.
    assert!(allows(&["192.0.2.0/24:80"], "any.example:80", "192.0.2.9"));
    assert!(rules(&["192.0.2.0/24:80"]).may_resolve("any.example", 80));
    assert!(!rules(&["other.example:80"]).may_resolve("any.example", 80));
}

#[test]
fn loopback_and_link_local_are_listed_plainly() {
    let special =
        ["127.0.0.1", "127.9.9.9", "169.254.169.254", "0.0.0.0", "224.0.0.1", "::1", "::", "fe80::1"];
    for address in special {
        let asked = if address.contains(':') { format!("[{address}]:80") } else { format!("{address}:80") };
        for wide in ["*:*", "0.0.0.0/0:*", "[::/0]:*"] {
            assert!(!allows(&[wide], &asked, address), "{wide} {address}");
        }
        assert!(!allows(&["rebound.example:80", "*.example:80"], "rebound.example:80", address));
        assert!(allows(&[&asked], &asked, address), "{address}");
    }
    for metadata in ["fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"] {
        let asked =
            if metadata.contains(':') { format!("[{metadata}]:80") } else { format!("{metadata}:80") };
        for wide in ["*:*", "100.64.0.0/10:*", "100.100.100.200/8:*", "[fd00::/8]:*", "168.63.129.0/24:*"] {
            assert!(!allows(&[wide], &asked, metadata), "{wide} {metadata}");
        }
        assert!(allows(&[&asked], &asked, metadata), "{metadata}");
    }
    assert!(!allows(&["*:*"], "[::ffff:127.0.0.1]:80", "::ffff:127.0.0.1"));
    assert!(allows(&["127.0.0.0/8:80"], "127.0.0.1:80", "127.0.0.1"));
    assert!(allows(&["localhost:80"], "localhost:80", "127.0.0.1"));
    assert!(!allows(&["localhost:80"], "127.0.0.1:80", "127.0.0.1"));
}

#[test]
fn listening_on_all_addresses_is_listed() {
    let all: SocketAddr = "0.0.0.0:80".parse().unwrap();
    assert!(!rules(&["0.0.0.0/0:80"]).allow_listen(all));
    assert!(!rules(&["192.0.2.1:80"]).allow_listen(all));
    assert!(rules(&["0.0.0.0:80"]).allow_listen(all));
    assert!(rules(&["*:80"]).allow_listen(all));
    assert!(rules(&["localhost:80"]).allow_listen("127.0.0.1:80".parse().unwrap()));
}

#[test]
fn malformed_rules_say_what_is_expected() {
    for text in
        ["", "host", "host:", "host:0", ":80", "10.0.0.0/33:80", "::1:80", "*.10.0.0.1:80", "a:9-8", "a b:1"]
    {
        let error = text.parse::<Rule>().unwrap_err();
        assert!(error.contains("HOST:PORT"), "{text}: {error}");
    }
}

#[test]
fn networks_contain_their_addresses() {
    let network: Network = "192.0.2.0/24".parse().unwrap();
    assert!(network.contains([192, 0, 2, 200].into()) && !network.contains([192, 0, 3, 1].into()));
    assert!("0.0.0.0/0".parse::<Network>().unwrap().contains([8, 8, 8, 8].into()));
    assert!("2001:db8::1".parse::<Network>().unwrap().contains("2001:db8::1".parse().unwrap()));
    assert!("name".parse::<Network>().is_err());
}
