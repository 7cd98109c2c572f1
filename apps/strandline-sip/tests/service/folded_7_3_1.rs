//! Folded header values are equivalent to unfolded ones (section 7.3.1), and everything derived from them is
//! valid.

use crate::harness::{Phone, World, response, settings};
use strandline_sip::service::{Mode, Settings};

fn phones() -> (Phone, Phone) {
    (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5060"))
}

#[test]
fn folded_contact_is_stored_on_one_line() {
    let (_, bob) = phones();
    let mut world = World::new();
    let folded = "Contact: \"Bob\r\n Q.\" <sip:bob@192.0.2.2:5060>\r\n ;methods=\"INVITE,\r\n\t  ACK\"\r\n  ;x;expires=600\r\n";
    let ok = world.one(&bob, &bob.register("bob", 1, folded));
    assert_eq!(ok.first_line(), "SIP/2.0 200 OK", "{}", ok.text);
    let one_line = "<sip:bob@192.0.2.2:5060>;methods=\"INVITE, ACK\";x;expires=600";
    assert_eq!(ok.lines("Contact"), [one_line]);
    let kept = &world.service.registrations().locations().bindings(b"bob@example.com")[0];
    assert_eq!(&kept.params[..], b";methods=\"INVITE, ACK\";x");
}

#[test]
fn an_instance_is_the_same_folded_or_not() {
    let bob = Phone::tcp("192.0.2.2:5060", 1);
    let mut world = World::new();
    let contact = |space: &str, port: u16| {
        format!(
            "Supported: outbound, gruu\r\nContact: <sip:bob@192.0.2.2:{port}>;reg-id=1\
             {space};+sip.instance=\"<urn:x:a{space}b>\"\r\n"
        )
    };
    world.register_with(&bob, "bob", &contact("\r\n\t ", 5060));
    let ok = world.one(&bob, &bob.register("bob", 2, &contact(" ", 5070)));
    assert_eq!(ok.lines("Contact").len(), 1, "one phone, one flow: {}", ok.text);
    assert!(ok.text.contains("gr=urn:x:a%20b"), "{}", ok.text);
}

#[test]
fn quoted_zeros_come_back_as_they_came() {
    let (_, bob) = phones();
    let mut world = World::new();
    let ok =
        world.one(&bob, &bob.register("bob", 1, "Contact: <sip:bob@192.0.2.2>;x=\"a\\\0\";expires=60\r\n"));
    assert_eq!(ok.lines("Contact"), ["<sip:bob@192.0.2.2>;x=\"a\\\0\";expires=60"]);
}

#[test]
fn a_request_goes_by_a_folded_path() {
    let (alice, edge) = phones();
    let mut world = World::new();
    let path = "Supported: path\r\nPath: <sip:192.0.2.2;lr>\r\n ;a,\r\n\t<sip:192.0.2.51;lr>\r\n\
                Contact: <sip:bob@10.0.0.5>\r\n";
    world.register_with(&edge, "bob", path);
    let sent = world.invite(&alice, &alice.invite("bob", "1"));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].lines("Route"), ["<sip:192.0.2.2;lr> ;a, <sip:192.0.2.51;lr>"]);
}

/// Sends alice's INVITE with folded From, To and Call-ID to bob.
fn called(world: &mut World, alice: &Phone, bob: &Phone) -> String {
    world.register(bob, "bob");
    let invite = alice
        .invite("bob", "1")
        .replace("From: <sip:alice@example.com>;", "From: <sip:alice@example.com>\r\n ;")
        .replace("To: <sip:bob@example.com>", "To: \"Bob\r\n Q.\" <sip:bob@example.com>\r\n ;x")
        .replace("Call-ID: call", "Call-ID:\r\n call");
    world.invite(alice, &invite).remove(0).text
}

#[test]
fn an_error_is_acknowledged_with_folded_headers() {
    let (alice, bob) = phones();
    let mut world = World::new();
    let invite = called(&mut world, &alice, &bob);
    let sent = world.receive(&bob, &response(&invite, 486, "b"));
    let ack = sent.iter().find(|one| one.flow == bob.0).expect("an ACK");
    assert_eq!(ack.first_line(), "ACK sip:bob@192.0.2.2:5060 SIP/2.0");
    assert!(ack.text.contains("<sip:bob@example.com>\r\n ;x;tag=b\r\n"), "{}", ack.text);
}

#[test]
fn a_call_with_folded_headers_is_cancelled() {
    let (alice, bob) = phones();
    let mut world = World::new();
    let invite = called(&mut world, &alice, &bob);
    world.receive(&bob, &response(&invite, 180, "b"));
    let sent = world.receive(&alice, &alice.request("CANCEL", "sip:bob@example.com", "1", ""));
    let cancel = sent.iter().find(|one| one.flow == bob.0).expect("a CANCEL");
    assert_eq!(cancel.first_line(), "CANCEL sip:bob@192.0.2.2:5060 SIP/2.0");
}

#[test]
fn unanswered_call_with_folded_headers_is_408() {
    let (alice, bob) = phones();
    let mut world = World::new();
    called(&mut world, &alice, &bob);
    let sent = world.run_until(33_000);
    let end = sent.iter().find(|one| one.flow == alice.0).expect("an answer");
    assert!(end.first_line().starts_with("SIP/2.0 408"), "{}", end.text);
    assert!(end.text.contains("<sip:bob@example.com>\r\n ;x;tag="), "{}", end.text);
}

#[test]
fn rewritten_folded_routes_stay_on_one_line() {
    let alice = Phone::udp("192.0.2.1:5060");
    let mut world = World::relaying();
    let routes =
        "Route: <sip:198.51.100.1;lr>,<sip:198.51.100.1:5060;lr>,<sip:192.0.2.9;lr>\r\n ;a\r\n ;b\r\n";
    let sent = world.receive(&alice, &alice.request("MESSAGE", "sip:carol@192.0.2.77", "1", routes));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].first_line(), "MESSAGE sip:carol@192.0.2.77 SIP/2.0", "{}", sent[0].text);
    assert!(sent[0].text.contains("Route: <sip:192.0.2.9;lr> ;a ;b\r\n"), "{}", sent[0].text);
}

#[test]
fn a_redirect_to_a_folded_contact() {
    let (alice, bob) = phones();
    let mut world = World::with(Settings { mode: Mode::Redirect, ..settings() });
    world.register_with(&bob, "bob", "Contact: <sip:bob@192.0.2.2:5060>\r\n ;q=0.5\r\n");
    let moved = world.one(&alice, &alice.invite("bob", "1"));
    assert_eq!(moved.line("Contact"), Some("<sip:bob@192.0.2.2:5060>;q=0.500"));
}
