//! An edge proxy for registrars in other domains: RFC 5626 section 5, RFC 3327 section 5.2.

use strandline_sip::service::{Directory, Hop, Route, Settings};
use strandline_sip::transaction::{Flow, Protocol};

use crate::harness::{Phone, Sent, World, in_dialog, response, settings};

/// The registrar of partner.example, reached by a route.
fn registrar() -> Phone {
    Phone::tcp("203.0.113.5:5060", 20)
}

fn phone() -> Phone {
    Phone::tcp("192.0.2.2:40000", 9)
}

fn world() -> World {
    let hops = vec![Hop { uri: "sip:203.0.113.5;transport=tcp".to_owned(), priority: 0 }];
    let domain = Some("partner.example".to_owned());
    let routes = vec![Route { prefix: None, domain, hops, registrar: true, offer: None }];
    let mut world =
        World::with(Settings { directory: Directory { routes, ..Directory::default() }, ..settings() });
    world.service.connection_opened(9);
    world.service.connection_opened(20);
    world
}

/// A REGISTER request for bob@partner.example.
fn register(phone: &Phone, more: &str) -> String {
    let contact = "Contact: <sip:bob@192.0.2.2:40000;transport=tcp;ob>;reg-id=1;\
                   +sip.instance=\"<urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF>\"\r\n";
    phone.register("bob", 1, &format!("{more}{contact}")).replace("example.com", "partner.example")
}

const OUTBOUND: &str = "Supported: path, outbound\r\n";

/// The Path that the registrar received.
fn path(world: &mut World, phone: &Phone) -> (Sent, String) {
    let sent = world.one(phone, &register(phone, OUTBOUND));
    let path = sent.line("Path").expect(&sent.text).to_owned();
    (sent, path)
}

/// A request from the registrar to the phone.
fn by_path(method: &str, path: &str, branch: &str) -> String {
    let request = registrar().request(method, "sip:bob@192.0.2.2:40000;transport=tcp;ob", branch, "");
    request.replacen("From:", &format!("Route: {path}\r\nFrom:"), 1)
}

#[test]
fn register_through_edge_carries_a_path() {
    let mut world = world();
    let (sent, path) = path(&mut world, &phone());
    assert_eq!(sent.flow, Flow::to(Protocol::Tcp, "203.0.113.5:5060".parse().unwrap()));
    assert_eq!(sent.first_line(), "REGISTER sip:partner.example SIP/2.0");
    assert!(path.starts_with("<sip:") && path.ends_with("@198.51.100.1:5060;transport=tcp;lr;ob>"), "{path}");
    assert_eq!(sent.lines("Require"), ["path"]);
    assert!(sent.line("Contact").unwrap().starts_with("<sip:bob@192.0.2.2:40000"), "{}", sent.text);
    assert!(world.service.registrations().locations().is_empty(), "it isn't bound here");
    // A challenge, and then 200 with the registrar's Service-Route.
    let asked = world.one(&registrar(), &response(&sent.text, 401, "r"));
    assert_eq!((asked.flow, asked.first_line()), (phone().0, "SIP/2.0 401 Unauthorized"));
    let again = register(&phone(), OUTBOUND).replace("CSeq: 1", "CSeq: 2").replace("z9hG4bKr", "z9hG4bKs");
    let again = world.one(&phone(), &again.replace("Contact:", "Authorization: Digest x=\"y\"\r\nContact:"));
    assert_eq!(again.lines("Authorization").len(), 1, "{}", again.text);
    let ok = response(&again.text, 200, "r").replace(
        "Content-Length",
        "Service-Route: <sip:203.0.113.5;transport=tcp;lr>\r\nRequire: outbound\r\nContent-Length",
    );
    let ok = world.one(&registrar(), &ok);
    assert_eq!((ok.flow, ok.first_line()), (phone().0, "SIP/2.0 200 OK"));
    assert_eq!(ok.line("Service-Route"), Some("<sip:203.0.113.5;transport=tcp;lr>"));
    // The phone sends its own requests along it, to any user. Nobody else may use it.
    let call = |to: &str, routes: &str, branch: &str| {
        let text = phone().request("INVITE", to, branch, &format!("Route: {routes}\r\n"));
        text.replace("alice@example.com", "bob@partner.example")
    };
    let routes = "<sip:198.51.100.1;transport=tcp;lr>, <sip:203.0.113.5;transport=tcp;lr>";
    let sent = world.invite(&phone(), &call("sip:carol@elsewhere.example", routes, "c1"));
    assert_eq!(sent[0].flow.peer, registrar().0.peer);
    assert_eq!(sent[0].lines("Route"), ["<sip:203.0.113.5;transport=tcp;lr>"]);
    assert!(sent[0].line("Record-Route").is_some());
    for routes in [
        "<sip:198.51.100.1;transport=tcp;lr>, <sip:203.0.113.66;lr>",
        "<sip:198.51.100.1;transport=tcp;lr>, <sip:partner.example;maddr=203.0.113.66;lr>",
        "<sip:198.51.100.1;transport=tcp;lr>",
    ] {
        let refused = world.one(&phone(), &call("sip:carol@203.0.113.66", routes, "c2"));
        assert_eq!(refused.first_line(), "SIP/2.0 403 Relaying Denied");
    }
}

#[test]
fn path_leads_to_the_flow_or_430() {
    for phone in [phone(), Phone::udp("192.0.2.2:61234")] {
        let mut world = world();
        let (_, path) = path(&mut world, &phone);
        let sent = world.invite(&registrar(), &by_path("INVITE", &path, "1")).remove(0);
        assert_eq!(sent.flow, phone.0);
        assert_eq!(sent.first_line(), "INVITE sip:bob@192.0.2.2:40000;transport=tcp;ob SIP/2.0");
        assert!(sent.lines("Route").is_empty(), "{}", sent.text);
        // The dialog takes the same path in both directions.
        let ok = world.one(&phone, &response(&sent.text, 200, "bob"));
        assert_eq!(ok.flow, registrar().0);
        let bye =
            in_dialog("BYE", &ok.text, "sip:bob@192.0.2.2:40000;transport=tcp;ob", &registrar(), 2, true);
        assert_eq!(world.one(&registrar(), &bye).flow, phone.0);
        let bye = in_dialog("BYE", &ok.text, "sip:alice@203.0.113.5:5060;transport=tcp", &phone, 1, false);
        assert_eq!(world.one(&phone, &bye).flow, registrar().0);
        world.service.connection_closed(9);
        let sent = world.receive(&registrar(), &by_path("INVITE", &path, "2"));
        let gone = sent.iter().any(|one| one.first_line() == "SIP/2.0 430 Flow Failed");
        assert_eq!(gone, phone.0.connection != 0, "{sent:#?}");
    }
}

#[test]
fn forged_path_opens_no_flow() {
    let mut world = world();
    let (_, path) = path(&mut world, &phone());
    let at = path.find(':').unwrap() + 12;
    let mut forged = path.clone();
    forged.replace_range(at..=at, if &path[at..=at] == "A" { "B" } else { "A" });
    let refused = world.one(&registrar(), &by_path("INVITE", &forged, "1"));
    assert_eq!(refused.first_line(), "SIP/2.0 403 Relaying Denied");
    // If the phone itself uses it, the request is outgoing and needs a permitted destination.
    let own = by_path("INVITE", &path, "2")
        .replace("sip:bob@192.0.2.2:40000;transport=tcp;ob", "sip:x@203.0.113.66");
    assert_eq!(world.one(&phone(), &own).first_line(), "SIP/2.0 403 Relaying Denied");
    let own = own.replace(&path, &format!("{path}, <sip:203.0.113.5;transport=tcp;lr>"));
    let sent = world.invite(&phone(), &own.replace("z9hG4bK2", "z9hG4bK3"));
    assert_eq!(sent[0].flow.peer, registrar().0.peer);
    // An ACK for a closed flow is dropped.
    world.service.connection_closed(9);
    assert!(world.receive(&registrar(), &by_path("ACK", &path, "4")).is_empty());
}

#[test]
fn phone_without_path_support_is_reported() {
    let mut world = world();
    let refused = world.one(&phone(), &register(&phone(), ""));
    assert_eq!(
        (refused.first_line(), refused.line("Require")),
        ("SIP/2.0 421 Extension Required", Some("path"))
    );
    // A proxy that isn't the first hop adds nothing (RFC 5626 section 5.1), with or without outbound support.
    for supported in [OUTBOUND, ""] {
        let via = "Via: SIP/2.0/UDP 192.0.2.77;branch=z9hG4bKfirst\r\nFrom:";
        let text = register(&phone(), supported).replacen("From:", via, 1);
        let text = text.replace("z9hG4bKr", &format!("z9hG4bK{}", supported.len()));
        let sent = world.one(&phone(), &text);
        assert!(sent.first_line().starts_with("REGISTER"), "{}", sent.text);
        assert_eq!((sent.line("Path"), sent.line("Require")), (None, None), "{}", sent.text);
    }
}

#[test]
fn connection_of_a_foreign_registration_is_kept() {
    let idle = Some(std::time::Duration::from_secs(300));
    let mut world = world();
    let (sent, _) = path(&mut world, &phone());
    assert_eq!(world.service.silence_max(9, idle), idle, "nobody has taken it yet");
    world.one(&registrar(), &response(&sent.text, 200, "r"));
    assert_eq!(world.service.silence_max(9, idle), None);
    assert!(world.service.registrations().is_registered(&phone().0));
    world.service.connection_closed(9);
    assert_eq!(world.service.silence_max(9, idle), idle);
}

#[test]
fn domain_without_edge_route_is_not_ours() {
    let mut world = World::new();
    world.service.connection_opened(9);
    let refused = world.one(&phone(), &register(&phone(), OUTBOUND));
    assert_eq!(refused.first_line(), "SIP/2.0 403 Relaying Denied");
}

#[test]
fn ended_flow_is_reported_to_the_registrar() {
    for sent_before in [false, true] {
        let mut world = world();
        let (_, path) = path(&mut world, &phone());
        world.service.handle_message(world.now, registrar().0, by_path("INVITE", &path, "1").as_bytes());
        let client = world.service.output().out.iter().find_map(|(item, _)| item.client).unwrap();
        world.sent();
        match sent_before {
            true => world.service.connection_closed(9),
            false => world.service.send_failed(world.now, client),
        }
        let told = world.run_until(20);
        assert!(
            told.iter().any(|one| one.first_line() == "SIP/2.0 430 Flow Failed"),
            "{sent_before} {told:#?}"
        );
    }
}
