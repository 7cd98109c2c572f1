//! GRUUs: created by the registrar (section 5), and followed by the proxy (section 6).

use strandline_sip::bindings::Journal;
use strandline_sip::service::{Mode, Settings};

use crate::harness::{Phone, Sent, World, in_dialog, response, settings};

const INSTANCE: &str = "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
const PUBLIC: &str = "sip:bob@example.com;gr=urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

fn contact(phone: &Phone, user: &str, more: &str) -> String {
    format!("Supported: gruu\r\nContact: {};+sip.instance=\"<{INSTANCE}>\"{more}\r\n", phone.contact(user))
}

fn bob() -> Phone {
    Phone::udp("192.0.2.2:5070")
}

fn alice() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

/// A parameter of the Contact in a response.
fn param<'a>(contact: &'a str, name: &str) -> Option<&'a str> {
    let at = contact.find(&format!(";{name}=\""))? + name.len() + 3;
    contact.get(at..)?.split('"').next()
}

fn temporary(ok: &Sent) -> String {
    param(ok.line("Contact").unwrap(), "temp-gruu").unwrap().to_owned()
}

/// Registers bob's phone, and returns its temporary GRUU.
fn register(world: &mut World, phone: &Phone, cseq: u32) -> String {
    if phone.0.connection != 0 {
        world.service.connection_opened(phone.0.connection);
    }
    let ok = world.one(phone, &phone.register("bob", cseq, &contact(phone, "bob", "")));
    assert_eq!(ok.first_line(), "SIP/2.0 200 OK", "{}", ok.text);
    temporary(&ok)
}

fn invite_uri(uri: &str, branch: &str) -> String {
    alice().request("INVITE", uri, branch, "")
}

fn refused(world: &mut World, uri: &str, branch: &str) -> String {
    world.one(&alice(), &invite_uri(uri, branch)).first_line().to_owned()
}

#[test]
fn asking_phone_gets_both_gruus() {
    let mut world = World::new();
    let ok = world.one(&bob(), &bob().register("bob", 1, &contact(&bob(), "bob", "")));
    let contact = ok.line("Contact").unwrap();
    assert_eq!(param(contact, "pub-gruu"), Some(PUBLIC));
    let temporary = param(contact, "temp-gruu").unwrap();
    assert!(temporary.starts_with("sip:tgruu.") && temporary.ends_with("@example.com;gr"), "{temporary}");
    assert!(!temporary.contains("bob"));
    assert!(contact.contains(&format!("+sip.instance=\"<{INSTANCE}>\"")), "{contact}");
    // The registrar doesn't list gruu in Require or Supported (section 5.2).
    assert_eq!((ok.line("Require"), ok.line("Supported")), (None, None));
}

#[test]
fn phone_without_instance_gets_no_gruu() {
    let mut world = World::new();
    let without = contact(&bob(), "bob", "").replace("Supported: gruu\r\n", "");
    let ok = world.one(&bob(), &bob().register("bob", 1, &without));
    assert!(!ok.text.contains("gruu"), "{}", ok.text);
    let ok =
        world.one(&bob(), &bob().register("eve", 1, "Supported: gruu\r\nContact: <sip:eve@192.0.2.2>\r\n"));
    assert!(!ok.text.contains("gruu"), "{}", ok.text);
    // A later request for a GRUU is fulfilled; Require is supported.
    let asks = contact(&bob(), "bob", "").replace("Supported: gruu", "Supported: gruu\r\nRequire: gruu");
    assert!(world.one(&bob(), &bob().register("bob", 2, &asks)).text.contains("temp-gruu"));
}

#[test]
fn what_a_phone_says_of_gruus_is_ignored() {
    let mut world = World::new();
    let more = ";pub-gruu=\"sip:eve@example.com;gr=x\";temp-gruu=\"sip:tgruu.x@example.com;gr\";q=0.5";
    let ok = world.one(&bob(), &bob().register("bob", 1, &contact(&bob(), "bob", more)));
    let contact = ok.line("Contact").unwrap();
    assert_eq!(contact.matches("-gruu").count(), 2, "{contact}");
    assert_eq!(param(contact, "pub-gruu"), Some(PUBLIC));
    assert!(contact.contains(";q=0.5"));
}

#[test]
fn gruu_requests_reach_only_their_instance() {
    let mut world = World::new();
    let other = Phone::udp("192.0.2.3:5070");
    let gruu = register(&mut world, &bob(), 1);
    world.one(
        &other,
        &other
            .register("bob", 1, &format!("Contact: {}\r\n", other.contact("bob")))
            .replace("reg-bob", "other"),
    );
    assert_eq!(world.invite(&alice(), &alice().invite("bob", "aor")).len(), 2, "the address rings both");
    for (branch, uri) in [("pub", PUBLIC), ("temp", &gruu)] {
        let sent = world.invite(&alice(), &invite_uri(uri, branch));
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].flow, bob().0);
        assert_eq!(sent[0].first_line(), "INVITE sip:bob@192.0.2.2:5070 SIP/2.0");
        assert_eq!(sent[0].lines("Record-Route").len(), 1);
    }
    // UUIDs are case-insensitive.
    assert_eq!(world.invite(&alice(), &invite_uri(&PUBLIC.replace("f81d4fae", "F81D4FAE"), "case")).len(), 1);
}

#[test]
fn public_gruu_outlives_the_registration() {
    let mut world = World::new();
    let gruu = register(&mut world, &bob(), 1);
    world.one(&bob(), &bob().register("bob", 2, &contact(&bob(), "bob", ";expires=0")));
    assert_eq!(refused(&mut world, PUBLIC, "1"), "SIP/2.0 480 Temporarily Unavailable");
    assert_eq!(refused(&mut world, &gruu, "2"), "SIP/2.0 404 No Such GRUU");
    // After registering again with the same Call-ID, the old GRUUs stay invalid.
    let anew = register(&mut world, &bob(), 3);
    assert_eq!(refused(&mut world, &gruu, "3"), "SIP/2.0 404 No Such GRUU");
    assert_eq!(world.invite(&alice(), &invite_uri(&anew, "4")).len(), 1);
    assert_eq!(world.invite(&alice(), &invite_uri(PUBLIC, "5")).len(), 1);
    // GRUUs also expire, even before a sweep.
    world.run_until(3_700_000);
    assert_eq!(refused(&mut world, &anew, "6"), "SIP/2.0 404 No Such GRUU");
    assert_eq!(refused(&mut world, PUBLIC, "7"), "SIP/2.0 480 Temporarily Unavailable");
}

#[test]
fn temporary_ones_accumulate_until_the_call_id_changes() {
    let mut world = World::new();
    let first = register(&mut world, &bob(), 1);
    let second = register(&mut world, &bob(), 2);
    assert_ne!(first, second);
    for (branch, gruu) in [("1", &first), ("2", &second)] {
        assert_eq!(world.invite(&alice(), &invite_uri(gruu, branch)).len(), 1);
    }
    let anew = bob().register("bob", 3, &contact(&bob(), "bob", "")).replace("reg-bob", "another");
    let third = temporary(&world.one(&bob(), &anew));
    for (branch, gruu) in [("3", &first), ("4", &second)] {
        assert_eq!(refused(&mut world, gruu, branch), "SIP/2.0 404 No Such GRUU");
    }
    assert_eq!(world.invite(&alice(), &invite_uri(&third, "5")).len(), 1);
}

#[test]
fn what_is_no_gruu_of_ours_is_404() {
    let mut world = World::new();
    let gruu = register(&mut world, &bob(), 1);
    let mut forged = gruu.clone();
    forged.replace_range(12..13, if &gruu[12..13] == "A" { "B" } else { "A" });
    let elsewhere = gruu.replace("example.com", "198.51.100.1");
    for (branch, uri) in [
        ("1", forged.as_str()),
        ("2", &elsewhere),
        ("3", "sip:bob@example.com;gr"),
        ("4", "sip:tgruu.@example.com;gr"),
    ] {
        assert_eq!(refused(&mut world, uri, branch), "SIP/2.0 404 No Such GRUU", "{uri}");
    }
    assert!(refused(&mut world, "sip:bob@example.com;gr=urn:uuid:other", "5").starts_with("SIP/2.0 480"));
}

#[test]
fn a_contact_that_leads_back_is_refused() {
    let mut world = World::new();
    let gruu = register(&mut world, &bob(), 1);
    let contact = |uri: &str| format!("Contact: <{uri}>;+sip.instance=\"<{INSTANCE}>\"\r\n");
    for (number, uri) in
        ["sip:bob@example.com", "sip:b%6Fb@EXAMPLE.com;transport=tcp", PUBLIC, &gruu].iter().enumerate()
    {
        let no = world.one(&bob(), &bob().register("bob", 10 + number as u32, &contact(uri)));
        assert_eq!(no.first_line(), "SIP/2.0 403 Contact Leads Back Here", "{uri}");
    }
    let no = world.one(&bob(), &bob().register("bob", 20, &contact("tel:+441234")));
    assert_eq!(no.first_line(), "SIP/2.0 403 An Instance Needs a SIP URI");
    // The address of another user is no loop.
    let ok = world.one(&bob(), &bob().register("bob", 21, &contact("sip:eve@example.com")));
    assert_eq!(ok.first_line(), "SIP/2.0 200 OK");
}

#[test]
fn latest_contact_of_an_instance_is_tried_first() {
    let mut world = World::new();
    let (old, new) = (bob(), Phone::udp("192.0.2.2:5080"));
    register(&mut world, &old, 1);
    register(&mut world, &new, 2);
    let first = world.invite(&alice(), &invite_uri(PUBLIC, "1"));
    assert_eq!((first.len(), first[0].flow), (1, new.0));
    let next = world.receive(&new, &response(&first[0].text, 430, "b"));
    let again = next.iter().find(|sent| sent.first_line().starts_with("INVITE")).unwrap();
    assert_eq!(again.flow, old.0);
    let busy = world.receive(&old, &response(&again.text, 486, "b"));
    assert!(busy.iter().any(|sent| sent.first_line() == "SIP/2.0 486 Busy Here"), "{busy:#?}");
    // If the phone itself rejects the request, its other contact is not tried.
    let first = world.invite(&alice(), &invite_uri(PUBLIC, "2"));
    let busy = world.receive(&new, &response(&first[0].text, 486, "b"));
    assert!(busy.iter().all(|sent| !sent.first_line().starts_with("INVITE")), "{busy:#?}");
    assert!(busy.iter().any(|sent| sent.first_line() == "SIP/2.0 486 Busy Here"));
    // A refresh makes the old contact the first again. A call to the user rings the phone once.
    register(&mut world, &old, 3);
    assert_eq!(world.invite(&alice(), &invite_uri(PUBLIC, "3"))[0].flow, old.0);
    let once = world.invite(&alice(), &alice().invite("bob", "4"));
    assert_eq!((once.len(), once[0].flow), (1, old.0));
}

#[test]
fn phones_with_several_flows_ring_once() {
    let mut world = World::new();
    let other = Phone::udp("192.0.2.9:5060");
    let (one, two) = (Phone::tcp("192.0.2.2:40000", 9), Phone::tcp("192.0.2.2:40001", 10));
    for (phone, id) in [(&one, 1), (&two, 2)] {
        world.service.connection_opened(phone.0.connection);
        let more = format!(";reg-id={id}");
        world.one(phone, &phone.register("bob", id, &contact(phone, "bob", &more)));
    }
    world.one(
        &other,
        &other
            .register("bob", 1, &format!("Contact: {}\r\n", other.contact("bob")))
            .replace("reg-bob", "other"),
    );
    let sent = world.invite(&alice(), &alice().invite("bob", "1"));
    let mut flows: Vec<_> = sent.iter().map(|sent| sent.flow.peer.to_string()).collect();
    flows.sort();
    assert_eq!(flows, ["192.0.2.2:40001", "192.0.2.9:5060"]);
    // The most recent flow is closed, so the other one is used.
    world.service.connection_closed(10);
    assert_eq!(world.invite(&alice(), &invite_uri(PUBLIC, "2"))[0].flow, one.0);
    world.service.connection_closed(9);
    assert!(refused(&mut world, PUBLIC, "3").starts_with("SIP/2.0 480"));
}

#[test]
fn gruu_in_a_dialog_follows_the_phone() {
    let mut world = World::new();
    let gruu = register(&mut world, &bob(), 1);
    let sent = world.invite(&alice(), &invite_uri(&gruu, "1"));
    let ok = world.one(&bob(), &response(&sent[0].text, 200, "bob"));
    // The phone moves.
    let moved = Phone::udp("192.0.2.77:5070");
    let anew = contact(&moved, "bob", "");
    world.one(&moved, &moved.register("bob", 2, &anew));
    world.one(&bob(), &bob().register("bob", 3, &contact(&bob(), "bob", ";expires=0")));
    for (method, cseq) in [("ACK", 1), ("BYE", 2)] {
        let sent = world.one(&alice(), &in_dialog(method, &ok.text, &gruu, &alice(), cseq, true));
        assert_eq!(sent.flow, moved.0, "{method}");
        assert_eq!(sent.first_line(), format!("{method} sip:bob@192.0.2.77:5070 SIP/2.0"));
        assert!(sent.lines("Route").is_empty());
    }
    // Without a Route as well, which is the purpose of GRUUs.
    let request = alice().request("MESSAGE", &gruu, "m", "");
    assert_eq!(world.receive(&alice(), &request)[0].flow, moved.0);
}

#[test]
fn redundant_path_is_left_out() {
    let mut world = World::new();
    let edge = Phone::udp("192.0.2.50:5070");
    let path =
        format!("{}Supported: path\r\nPath: <sip:token@192.0.2.50:5070;lr>\r\n", contact(&bob(), "bob", ""));
    world.one(&edge, &edge.register("bob", 1, &path));
    let by_path = world.invite(&alice(), &invite_uri(PUBLIC, "1"));
    assert_eq!(by_path[0].lines("Route"), ["<sip:token@192.0.2.50:5070;lr>"]);
    let routes = "Route: <sip:198.51.100.1;lr>\r\nRoute: <sip:record@192.0.2.50:5070;lr>\r\n";
    let sent = world.receive(&alice(), &alice().request("INFO", PUBLIC, "2", routes));
    assert_eq!(sent[0].lines("Route"), ["<sip:record@192.0.2.50:5070;lr>"]);
    assert_eq!(sent[0].first_line(), "INFO sip:bob@192.0.2.2:5070 SIP/2.0");
    assert_eq!(sent[0].flow.peer, edge.0.peer);
}

#[test]
fn gruus_survive_a_restart() {
    let mut before = World::journaled();
    let gruu = register(&mut before, &bob(), 1);
    let mut world = World::new();
    for (aor, state) in Journal::read(before.service.output().journal.as_bytes()) {
        world.service.load("", aor, state);
    }
    assert_eq!(world.invite(&alice(), &invite_uri(&gruu, "1"))[0].flow, bob().0);
    let second = register(&mut world, &bob(), 2);
    assert_ne!(gruu, second);
    assert_eq!(world.invite(&alice(), &invite_uri(&gruu, "2")).len(), 1);
}

#[test]
fn who_is_redirected_or_switched_off_gets_none() {
    let mut off = settings();
    off.registrar.gruu = false;
    for settings in [Settings { mode: Mode::Redirect, ..settings() }, off] {
        let mut world = World::with(settings);
        let ok = world.one(&bob(), &bob().register("bob", 1, &contact(&bob(), "bob", "")));
        assert!(!ok.text.contains("-gruu"), "{}", ok.text);
    }
}
