//! Record-Routes usable by both sides (RFC 3261 section 16.7, step 8; RFC 5658).

use strandline_sip::transaction::{Flow, Protocol};

use crate::harness::{Phone, Sent, World, in_dialog, response};

fn tls(address: &str, connection: u64) -> Phone {
    Phone(Flow { protocol: Protocol::Tls, ..Phone::tcp(address, connection).0 })
}

/// Calls a phone with a `sips` contact. Returns the INVITE there and the 200 that the caller receives.
fn answered(caller: &Phone, uri: &str) -> (World, Phone, Sent, Sent) {
    let callee = tls("192.0.2.2:40000", 12);
    let mut world = World::new();
    if caller.0.connection != 0 {
        world.service.connection_opened(caller.0.connection);
    }
    world.register_with(&callee, "bob", "Contact: <sips:bob@192.0.2.2:40000>\r\n");
    let invite = world.invite(caller, &caller.request("INVITE", uri, "1", "")).remove(0);
    let ok = world.one(&callee, &response(&invite.text, 200, "bob"));
    (world, callee, invite, ok)
}

#[test]
fn a_caller_without_tls_gets_sip_record_routes() {
    let callers = [
        (Phone::udp("192.0.2.1:5060"), ":5060;lr>"),
        (Phone::tcp("192.0.2.1:34567", 11), ":5060;transport=tcp;lr>"),
    ];
    for (caller, its_side) in callers {
        let (mut world, callee, invite, ok) = answered(&caller, "sip:bob@example.com");
        // The path to the callee must be secure.
        let routes = invite.lines("Record-Route");
        assert!(routes.iter().all(|route| route.starts_with("<sips:")), "{routes:?}");
        let routes = ok.lines("Record-Route");
        let [upper, lower] = routes[..] else { panic!("{}", ok.text) };
        assert!(upper.starts_with("<sip:") && upper.contains(";transport=tls;"), "{upper}");
        assert!(lower.starts_with("<sip:") && lower.contains(its_side), "{lower}");

        let target = "sips:bob@192.0.2.2:40000";
        let ack = world.one(&caller, &in_dialog("ACK", &ok.text, target, &caller, 1, true));
        assert_eq!((ack.flow, ack.lines("Route").len()), (callee.0, 0), "{}", ack.text);
        let bye = world.one(&caller, &in_dialog("BYE", &ok.text, target, &caller, 2, true));
        assert_eq!((bye.flow, bye.lines("Route").len()), (callee.0, 0), "{}", bye.text);
        // The callee uses the route set of the INVITE.
        let taken = response(&invite.text, 200, "bob");
        let bye = in_dialog("BYE", &taken, "sip:alice@192.0.2.1:5060", &callee, 3, false);
        assert_eq!(world.one(&callee, &bye).flow, caller.0);
    }
}

#[test]
fn a_ringing_phone_gives_sip_record_routes_too() {
    let caller = Phone::udp("192.0.2.1:5060");
    let callee = tls("192.0.2.2:40000", 12);
    let mut world = World::new();
    world.register_with(&callee, "bob", "Contact: <sips:bob@192.0.2.2:40000>\r\n");
    let invite = world.invite(&caller, &caller.invite("bob", "1")).remove(0);
    let ringing = world.one(&callee, &response(&invite.text, 180, "bob"));
    assert_eq!(ringing.first_line(), "SIP/2.0 180 Ringing");
    assert!(
        !ringing.lines("Record-Route").iter().any(|route| route.starts_with("<sips:")),
        "{}",
        ringing.text
    );
}

#[test]
fn a_caller_over_tls_keeps_sips_record_routes() {
    let caller = tls("192.0.2.1:34567", 11);
    let (_, _, invite, ok) = answered(&caller, "sips:bob@example.com");
    assert_eq!(ok.lines("Record-Route"), invite.lines("Record-Route"));
    assert!(ok.line("Record-Route").unwrap().starts_with("<sips:"), "{}", ok.text);
}
