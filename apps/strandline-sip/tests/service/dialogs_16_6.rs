//! Record-Route, loose routing, strict-route repair (sections 16.4, 16.6 and 16.12).

use crate::harness::{Phone, Sent, World, in_dialog, response};

fn established(caller: &Phone, callee: &Phone) -> (World, String) {
    let mut world = World::new();
    for phone in [caller, callee] {
        if phone.0.connection != 0 {
            world.service.connection_opened(phone.0.connection);
        }
    }
    world.register(callee, "bob");
    let sent = world.invite(caller, &caller.invite("bob", "1"));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].flow.peer, callee.0.peer);
    let ringing = world.one(callee, &response(&sent[0].text, 180, "bob"));
    assert_eq!((ringing.first_line(), ringing.flow), ("SIP/2.0 180 Ringing", caller.0));
    let ok = world.one(callee, &response(&sent[0].text, 200, "bob"));
    assert_eq!((ok.first_line(), ok.flow), ("SIP/2.0 200 OK", caller.0));
    assert_eq!(ok.lines("Via").len(), 1);
    (world, ok.text)
}

#[test]
fn trying_goes_after_200_ms_of_silence() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5070"));
    let mut world = World::new();
    world.register(&bob, "bob");
    world.invite(&alice, &alice.invite("bob", "1"));
    assert!(world.run_and_try_until(199).is_empty());
    let sent = world.run_and_try_until(400);
    assert_eq!((sent.len(), sent[0].is_trying(), sent[0].flow), (1, true, alice.0));
    assert_eq!(sent[0].lines("Via").len(), 1);
    // No 100 if a provisional response was sent in time.
    let (mut world, _) = established(&alice, &bob);
    assert!(!world.run_and_try_until(10_000).iter().any(Sent::is_trying));
}

#[test]
fn a_call_over_udp() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5070"));
    let (mut world, ok) = established(&alice, &bob);
    let ack = world.one(&alice, &in_dialog("ACK", &ok, "sip:bob@192.0.2.2:5070", &alice, 1, true));
    assert_eq!(ack.flow.peer, bob.0.peer);
    assert_eq!(ack.first_line(), "ACK sip:bob@192.0.2.2:5070 SIP/2.0");
    assert_eq!((ack.lines("Route").len(), ack.lines("Via").len()), (0, 2));
    // A retransmitted ACK gets the same branch, so the callee sees a retransmission.
    let again = world.one(&alice, &in_dialog("ACK", &ok, "sip:bob@192.0.2.2:5070", &alice, 1, true));
    assert_eq!(again.line("Via"), ack.line("Via"));
    let bye = world.one(&bob, &in_dialog("BYE", &ok, "sip:alice@192.0.2.1:5060", &bob, 1, false));
    assert_eq!((bye.flow.peer, bye.first_line()), (alice.0.peer, "BYE sip:alice@192.0.2.1:5060 SIP/2.0"));
    let ended = world.one(&alice, &response(&bye.text, 200, "alice"));
    assert_eq!((ended.flow, ended.first_line()), (bob.0, "SIP/2.0 200 OK"));
    world.run_until(100_000);
    assert_eq!(world.service.transactions().counts(), (0, 0));
}

#[test]
fn call_across_transports_has_two_record_routes() {
    let (alice, bob) = (Phone::tcp("192.0.2.1:34567", 11), Phone::udp("192.0.2.2:5070"));
    let (mut world, ok) = established(&alice, &bob);
    let routes: Vec<&str> = ok.lines().filter(|line| line.starts_with("Record-Route")).collect();
    assert_eq!(routes.len(), 2);
    assert!(!routes[0].contains("transport"), "{routes:?}");
    assert!(routes[1].contains(";transport=tcp;lr>"), "{routes:?}");
    for (phone, other, from_caller) in [(&alice, &bob, true), (&bob, &alice, false)] {
        let target =
            if from_caller { "sip:bob@192.0.2.2:5070" } else { "sip:alice@192.0.2.1:34567;transport=tcp" };
        let bye = world.one(phone, &in_dialog("BYE", &ok, target, phone, 7, from_caller));
        assert_eq!(bye.flow, other.0, "over the flow that stands");
        assert!(bye.lines("Route").is_empty(), "{}", bye.text);
    }
}

#[test]
fn subscriber_uses_the_route_set_of_notify() {
    // RFC 6665 section 4.4.1: the route set is that of the NOTIFY, not of the response to SUBSCRIBE.
    for (alice, bob) in [
        (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5070")),
        (Phone::tcp("192.0.2.1:34567", 11), Phone::udp("192.0.2.2:5070")),
        (Phone::udp("192.0.2.1:5060"), Phone::tcp("192.0.2.2:40000", 12)),
    ] {
        let mut world = World::new();
        for phone in [&alice, &bob] {
            world.service.connection_opened(phone.0.connection);
        }
        world.register(&bob, "bob");
        let uri = |phone: &Phone, user: &str| phone.contact(user).trim_matches(['<', '>']).to_owned();
        let more = "Event: presence\r\n";
        let subscribe = world.one(&alice, &alice.request("SUBSCRIBE", "sip:bob@example.com", "1", more));
        let ok = world.one(&bob, &response(&subscribe.text, 200, "bob"));
        let target = uri(&alice, "alice");
        let notify = world.one(&bob, &in_dialog("NOTIFY", &ok.text, &target, &bob, 1, false));
        assert_eq!((notify.flow, notify.lines("Route").len()), (alice.0, 0));
        assert_eq!(notify.lines("Record-Route").len(), ok.lines("Record-Route").len());
        // The response to the NOTIFY establishes the dialog for its sender, with the subscriber's tags
        // reversed.
        let told = world.one(&alice, &response(&notify.text, 200, "alice"));
        assert_eq!((told.flow, told.first_line()), (bob.0, "SIP/2.0 200 OK"));
        let target = uri(&bob, "bob");
        let refresh = in_dialog("SUBSCRIBE", &told.text, &target, &alice, 2, false);
        let refresh = world.one(&alice, &refresh);
        assert_eq!((refresh.flow, refresh.lines("Route").len()), (bob.0, 0), "{}", refresh.text);
        // The retransmission and the final NOTIFY take the same path.
        let again = world.one(&bob, &in_dialog("NOTIFY", &told.text, &uri(&alice, "alice"), &bob, 3, true));
        assert_eq!(
            (again.flow, again.lines("Record-Route").len()),
            (alice.0, notify.lines("Record-Route").len())
        );
    }
}

#[test]
fn dialog_moves_to_the_callers_new_connection() {
    let (alice, bob) = (Phone::tcp("192.0.2.1:34567", 11), Phone::tcp("192.0.2.2:40000", 12));
    let (mut world, ok) = established(&alice, &bob);
    let anew = Phone::tcp("192.0.2.1:34999", 13);
    world.service.connection_opened(13);
    let target = "sip:bob@192.0.2.2:40000;transport=tcp";
    let bye = world.one(&anew, &in_dialog("BYE", &ok, target, &anew, 2, true));
    assert_eq!(bye.flow, bob.0);
    world.service.connection_closed(12);
    let dead = world.one(&anew, &in_dialog("INFO", &ok, target, &anew, 3, true));
    assert_eq!(dead.first_line(), "SIP/2.0 430 Flow Failed");
}

#[test]
fn phone_without_connection_is_reached_at_its_contact() {
    let (alice, bob) = (Phone::tcp("192.0.2.1:34567", 11), Phone::tcp("192.0.2.2:40000", 12));
    let (mut world, ok) = established(&alice, &bob);
    world.service.connection_closed(12);
    for (number, (target, reached)) in [
        ("sip:bob@192.0.2.2:5060;transport=tcp", true),
        ("sip:bob@192.0.2.2:5060;transport=tcp;ob", false),
        ("sip:bob@192.0.2.77:5060;transport=tcp", false),
    ]
    .into_iter()
    .enumerate()
    {
        let sent = world.one(&alice, &in_dialog("INFO", &ok, target, &alice, 2 + number as u32, true));
        match reached {
            true => {
                assert_eq!((sent.flow.connection, sent.flow.peer), (0, "192.0.2.2:5060".parse().unwrap()))
            }
            false => assert_eq!(sent.first_line(), "SIP/2.0 430 Flow Failed", "{target}"),
        }
    }
}

#[test]
fn a_token_that_is_not_ours_opens_nothing() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5070"));
    let (mut world, ok) = established(&alice, &bob);
    let bye = in_dialog("BYE", &ok, "sip:bob@192.0.2.66", &alice, 2, true);
    let at = bye.find("Route: <sip:").unwrap() + 20;
    let mut forged = bye.clone();
    forged.replace_range(at..=at, if &bye[at..=at] == "A" { "B" } else { "A" });
    assert_eq!(world.one(&alice, &forged).first_line(), "SIP/2.0 403 Relaying Denied");
}

#[test]
fn what_a_strict_router_did_is_repaired() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5070"));
    let (mut world, ok) = established(&alice, &bob);
    let route = ok.lines().find_map(|line| line.strip_prefix("Record-Route: ")).unwrap();
    let inside = route.trim_matches(|c| c == '<' || c == '>');
    let bye = in_dialog("BYE", &ok, inside, &alice, 2, true)
        .replace(&format!("Route: {route}"), "Route: <sip:bob@192.0.2.2:5070>");
    let sent = world.one(&alice, &bye);
    assert_eq!(sent.first_line(), "BYE sip:bob@192.0.2.2:5070 SIP/2.0");
    assert_eq!(sent.flow.peer, bob.0.peer);
    assert!(sent.lines("Route").is_empty(), "{}", sent.text);
}

#[test]
fn the_next_route_is_followed() {
    let (alice, mut world) = (Phone::udp("192.0.2.1:5060"), World::relaying());
    let routes = "Route: <sip:198.51.100.1;lr>, <sip:192.0.2.80:5080;transport=tcp;lr>\r\nRoute: <sip:192.0.2.81;lr>\r\n";
    let sent = world.receive(&alice, &alice.request("OPTIONS", "sip:x@192.0.2.99", "1", routes));
    assert_eq!(sent[0].flow.peer, "192.0.2.80:5080".parse().unwrap());
    assert_eq!(sent[0].first_line(), "OPTIONS sip:x@192.0.2.99 SIP/2.0");
    assert_eq!(sent[0].lines("Route"), ["<sip:192.0.2.80:5080;transport=tcp;lr>", "<sip:192.0.2.81;lr>"]);
}

#[test]
fn secure_caller_gets_sips_record_route() {
    let tls = |address: &str, connection| {
        let flow = Phone::tcp(address, connection).0;
        Phone(strandline_sip::transaction::Flow {
            protocol: strandline_sip::transaction::Protocol::Tls,
            ..flow
        })
    };
    let (alice, bob) = (tls("192.0.2.1:34567", 11), tls("192.0.2.2:40000", 12));
    let mut world = World::new();
    world.service.connection_opened(11);
    world.register_with(&bob, "bob", "Contact: <sips:bob@192.0.2.2:40000>\r\n");
    let sent = world.invite(&alice, &alice.request("INVITE", "sips:bob@example.com", "1", ""));
    let route = sent[0].line("Record-Route").unwrap();
    assert!(route.starts_with("<sips:") && route.ends_with("@198.51.100.1:5060;lr>"), "{route}");
    let ok = world.one(&bob, &response(&sent[0].text, 200, "bob"));
    let bye = world.one(&alice, &in_dialog("BYE", &ok.text, "sips:bob@192.0.2.2:40000", &alice, 2, true));
    assert_eq!((bye.flow, bye.lines("Route").len()), (bob.0, 0));
    // No `sips` Record-Route if the request has no `sips` URI, even over TLS.
    let sent = world.invite(&alice, &alice.invite("bob", "2"));
    assert!(sent[0].line("Record-Route").unwrap().starts_with("<sips:"), "the contact is a sips URI");
    world.register(&alice, "alice");
    let sent = world.invite(&bob, &bob.invite("alice", "3"));
    assert!(sent[0].line("Record-Route").unwrap().starts_with("<sip:"), "{}", sent[0].text);
}

#[test]
fn strict_router_gets_its_uri_rewritten() {
    let (alice, mut world) = (Phone::udp("192.0.2.1:5060"), World::relaying());
    let routes = "Route: <sip:198.51.100.1;lr>, <sip:192.0.2.80:5080>\r\nRoute: <sip:192.0.2.81;lr>\r\n";
    let sent = world.receive(&alice, &alice.request("OPTIONS", "sip:x@192.0.2.99", "1", routes));
    assert_eq!(sent[0].flow.peer, "192.0.2.80:5080".parse().unwrap());
    assert_eq!(sent[0].first_line(), "OPTIONS sip:192.0.2.80:5080 SIP/2.0");
    assert_eq!(sent[0].lines("Route"), ["<sip:192.0.2.81;lr>", "<sip:x@192.0.2.99>"]);
    // As the only Route, without one of this server.
    let sent = world
        .receive(&alice, &alice.request("OPTIONS", "sip:x@192.0.2.99", "2", "Route: <sip:192.0.2.80>\r\n"));
    assert_eq!(sent[0].first_line(), "OPTIONS sip:192.0.2.80 SIP/2.0");
    assert_eq!(sent[0].lines("Route"), ["<sip:x@192.0.2.99>"]);
}

#[test]
fn a_path_may_begin_with_a_strict_router() {
    let (alice, edge) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.50:5070"));
    let mut world = World::new();
    let path = "Supported: path\r\nPath: <sip:token@192.0.2.50:5070>, <sip:192.0.2.51;lr>\r\nContact: <sip:bob@10.0.0.5>\r\n";
    world.one(&edge, &edge.register("bob", 1, path));
    let sent = world.invite(&alice, &alice.invite("bob", "1"));
    assert_eq!(sent[0].flow.peer, edge.0.peer);
    assert_eq!(sent[0].first_line(), "INVITE sip:token@192.0.2.50:5070 SIP/2.0");
    assert_eq!(sent[0].lines("Route"), ["<sip:192.0.2.51;lr>", "<sip:bob@10.0.0.5>"]);
}

#[test]
fn session_timers_are_between_the_two_ends() {
    // RFC 4028: session timers, rejections and refreshes pass unchanged.
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::tcp("192.0.2.2:40000", 12));
    let mut world = World::new();
    world.register(&bob, "bob");
    let timers = "Supported: timer\r\nSession-Expires: 50;refresher=uac\r\nMin-SE: 50\r\n";
    let invite = |branch: &str, timers: &str| alice.request("INVITE", "sip:bob@example.com", branch, timers);
    let sent = world.invite(&alice, &invite("1", timers)).remove(0);
    for line in timers.lines() {
        assert!(sent.text.contains(&format!("\r\n{line}\r\n")), "{line}: {}", sent.text);
    }
    let small = response(&sent.text, 422, "bob").replace("Content-Length", "Min-SE: 90\r\nContent-Length");
    let told = world.receive(&bob, &small);
    let told = told.iter().find(|one| one.flow == alice.0).unwrap();
    assert_eq!(told.first_line(), "SIP/2.0 422 Session Interval Too Small");
    assert_eq!(told.line("Min-SE"), Some("90"));
    let again = invite("2", &timers.replace("50", "90")).replace("CSeq: 1", "CSeq: 2");
    let sent = world.invite(&alice, &again).remove(0);
    let ok = response(&sent.text, 200, "bob")
        .replace("Content-Length", "Session-Expires: 90;refresher=uas\r\nRequire: timer\r\nContent-Length");
    let ok = world.one(&bob, &ok);
    assert_eq!(ok.line("Session-Expires"), Some("90;refresher=uas"));
    assert_eq!(ok.line("Require"), Some("timer"));
    // The refresher sends UPDATE or INVITE, over the flows of the dialog.
    for (cseq, method) in [(1, "UPDATE"), (2, "INVITE")] {
        let refresh = in_dialog(method, &ok.text, "sip:alice@192.0.2.1:5060", &bob, cseq, false).replace(
            "Content-Length",
            "Supported: timer\r\nSession-Expires: 90;refresher=uac\r\nContent-Length",
        );
        let sent = world.receive(&bob, &refresh);
        let sent = sent.iter().find(|one| one.flow == alice.0).unwrap();
        assert_eq!(sent.line("Session-Expires"), Some("90;refresher=uac"));
        let answer = world.receive(&alice, &response(&sent.text, 200, "alice"));
        assert_eq!(answer[0].flow, bob.0);
    }
}

#[test]
fn routes_that_are_folded_go_on() {
    let alice = Phone::udp("192.0.2.1:5060");
    let mut world = World::relaying();
    let routes = "Route: <sip:198.51.100.1;lr>, <sip:198.51.100.1;lr>,\r\n <sip:192.0.2.50;lr>\r\n\t;x=y\r\n";
    let sent = world.invite(&alice, &alice.request("INVITE", "sip:bob@192.0.2.2", "1", routes));
    assert_eq!(sent[0].flow.peer, "192.0.2.50:5060".parse().unwrap(), "{}", sent[0].text);
    let left: String = sent[0].line("Route").unwrap().split_ascii_whitespace().collect();
    assert_eq!(left, "<sip:192.0.2.50;lr>;x=y");
}
