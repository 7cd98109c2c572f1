//! SIP over IPv6: addresses are in brackets where the grammar requires them (RFC 5118).

use strandline_sip::service::{Advertised, Settings};
use strandline_sip::transaction::Protocol;

use crate::harness::{Phone, World, in_dialog, response, settings};

fn world() -> World {
    let advertised = |protocol| Advertised::new(protocol, "2001:db8::1".to_owned(), 5060);
    World::with(Settings { advertised: Protocol::ALL.map(advertised).to_vec(), ..settings() })
}

#[test]
fn a_call_between_two_transports_over_ipv6() {
    let (alice, bob) = (Phone::tcp("[2001:db8::a]:40000", 7), Phone::udp("[2001:db8::b]:5070"));
    let mut world = world();
    world.service.connection_opened(7);
    world.register(&bob, "bob");
    let sent = world.invite(&alice, &alice.invite("bob", "1")).remove(0);
    assert_eq!((sent.flow, sent.first_line()), (bob.0, "INVITE sip:bob@[2001:db8::b]:5070 SIP/2.0"));
    let vias = sent.lines("Via");
    assert!(
        vias[0].starts_with("SIP/2.0/UDP [2001:db8::1]") && vias[1].contains("received=2001:db8::a"),
        "{vias:?}"
    );
    let routes = sent.lines("Record-Route");
    assert!(
        routes.len() == 2 && routes.iter().all(|route| route.contains("@[2001:db8::1]:5060")),
        "{routes:?}"
    );
    let ok = world.one(&bob, &response(&sent.text, 200, "bob"));
    assert_eq!(ok.flow, alice.0);
    let ack = world.one(&alice, &in_dialog("ACK", &ok.text, "sip:bob@[2001:db8::b]:5070", &alice, 1, true));
    assert_eq!((ack.flow, ack.lines("Route").len()), (bob.0, 0));
    let bye = world.one(&bob, &in_dialog("BYE", &ok.text, "sip:alice@[2001:db8::a]:40000", &bob, 1, false));
    assert_eq!(bye.flow, alice.0);
    let ended = world.one(&alice, &response(&bye.text, 200, "alice"));
    assert_eq!((ended.flow, ended.first_line()), (bob.0, "SIP/2.0 200 OK"));
}

#[test]
fn its_own_address_is_known_in_every_spelling() {
    let phone = Phone::udp("[2001:db8::a]:5060");
    let mut world = world();
    for (number, uri) in
        ["sip:[2001:db8::1]", "sip:[2001:DB8:0:0::1]:5060", "sip:[2001:db8::0.0.0.1]"].into_iter().enumerate()
    {
        let told = world.one(&phone, &phone.request("OPTIONS", uri, &number.to_string(), ""));
        assert_eq!(told.first_line(), "SIP/2.0 200 OK", "{uri}");
    }
}

#[test]
fn link_local_phones_are_reached_on_their_links() {
    let (alice, bob) = (Phone::udp("[fe80::a%2]:5060"), Phone::udp("[fe80::b%3]:5070"));
    let mut world = world();
    world.register(&bob, "bob");
    let sent = world.invite(&alice, &alice.invite("bob", "1")).remove(0);
    assert_eq!((sent.flow, sent.first_line()), (bob.0, "INVITE sip:bob@[fe80::b]:5070 SIP/2.0"));
    assert!(!sent.text.contains('%'), "zones are for this host only: {}", sent.text);
    let ok = world.one(&bob, &response(&sent.text, 200, "bob"));
    assert_eq!(ok.flow, alice.0);
    // The Record-Route contains the flows to both ends.
    let bye = world.one(&bob, &in_dialog("BYE", &ok.text, "sip:alice@[fe80::a]:5060", &bob, 1, false));
    assert_eq!(bye.flow, alice.0);
    // Without rport, a response goes to the port in the Via, on the same link.
    let options = alice.request("OPTIONS", "sip:[2001:db8::1]", "2", "").replace(";rport", "");
    let other_port = Phone::udp("[fe80::a%2]:40000");
    assert_eq!(world.one(&other_port, &options).flow, alice.0);
}
