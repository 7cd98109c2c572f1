use crate::harness::{Phone, World};

fn phone() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

#[test]
fn hops_run_out() {
    let (mut world, phone) = (World::new(), phone());
    world.register(&Phone::udp("192.0.2.2:5060"), "bob");
    let tired = phone.invite("bob", "1").replace("Max-Forwards: 70", "Max-Forwards: 0");
    assert_eq!(world.one(&phone, &tired).first_line(), "SIP/2.0 483 Too Many Hops");
    let without = phone.invite("bob", "2").replace("Max-Forwards: 70\r\n", "");
    assert_eq!(world.invite(&phone, &without)[0].line("Max-Forwards"), Some("70"));
    assert_eq!(world.invite(&phone, &phone.invite("bob", "3"))[0].line("Max-Forwards"), Some("69"));
}

#[test]
fn loops_are_detected_and_spirals_pass() {
    let (mut world, phone) = (World::relaying(), phone());
    world.register(&Phone::udp("192.0.2.2:5060"), "bob");
    let sent = world.invite(&phone, &phone.invite("bob", "1"));
    // It returns as it was first sent, with the Vias that it collected.
    let vias = sent[0].lines("Via").iter().map(|via| format!("Via: {via}\r\n")).collect::<String>();
    let own = phone.invite("bob", "1");
    let at = own.find("Via:").unwrap();
    let end = own.find("Max-Forwards").unwrap();
    let far = Phone::udp("192.0.2.3:5060");
    let back =
        format!("{}Via: SIP/2.0/UDP 192.0.2.3:5060;branch=z9hG4bKfar\r\n{vias}{}", &own[..at], &own[end..]);
    assert_eq!(world.one(&far, &back).first_line(), "SIP/2.0 482 Loop Detected");
    // With another request URI it is forwarded again (a spiral).
    let spiral = back.replace("z9hG4bKfar", "z9hG4bKfar2").replace("INVITE sip:bob@", "INVITE sip:carol@");
    world.register(&Phone::udp("192.0.2.4:5060"), "carol");
    assert_eq!(world.invite(&far, &spiral).len(), 1);
}

#[test]
fn unknown_proxy_require_is_refused() {
    let (mut world, phone) = (World::new(), phone());
    let answer =
        world.one(&phone, &phone.request("INVITE", "sip:bob@example.com", "1", "Proxy-Require: magic\r\n"));
    assert_eq!(answer.first_line(), "SIP/2.0 420 Bad Extension");
    assert_eq!(answer.line("Unsupported"), Some("magic"));
}

#[test]
fn schemes_users_and_domains() {
    let (mut world, phone) = (World::new(), phone());
    let mut ask = |method: &str, uri: &str, branch: &str| {
        world.one(&phone, &phone.request(method, uri, branch, "")).first_line().to_owned()
    };
    assert_eq!(ask("OPTIONS", "mailto:bob@example.com", "1"), "SIP/2.0 416 Unknown URI scheme");
    assert_eq!(ask("INVITE", "sip:nobody@example.com", "2"), "SIP/2.0 404 Not Found");
    assert_eq!(ask("INVITE", "sip:bob@192.0.2.77", "3"), "SIP/2.0 403 Relaying Denied");
    assert_eq!(ask("OPTIONS", "sip:example.com", "4"), "SIP/2.0 200 OK");
    assert_eq!(ask("OPTIONS", "sip:198.51.100.1", "5"), "SIP/2.0 200 OK");
    let mut world = World::relaying();
    let mut ask = |uri: &str, branch: &str| {
        world.receive(&phone, &phone.request("OPTIONS", uri, branch, ""))[0].first_line().to_owned()
    };
    assert_eq!(ask("sip:bob@192.0.2.77", "6"), "OPTIONS sip:bob@192.0.2.77 SIP/2.0");
    assert_eq!(ask("sip:bob@255.255.255.255", "7"), "SIP/2.0 502 Unresolvable Destination");
}

#[test]
fn answers_go_where_the_request_came_from() {
    let (mut world, phone) = (World::new(), Phone::udp("203.0.113.9:40000"));
    let asked =
        phone.request("OPTIONS", "sip:example.com", "1", "").replace("203.0.113.9:40000;", "10.0.0.1:5062;");
    let answer = world.one(&phone, &asked);
    assert_eq!(answer.flow, phone.0);
    assert!(answer.line("Via").unwrap().contains(";rport=40000;received=203.0.113.9"), "{}", answer.text);
    // Without rport, the response goes to the port in the Via (RFC 3261 section 18.2.2), but never to another
    // address.
    let unasked = asked.replace(";rport", ";maddr=192.0.2.50");
    let answer = world.one(&phone, &unasked);
    assert_eq!(answer.flow.peer, "203.0.113.9:5062".parse().unwrap());
}

#[test]
fn the_ack_of_a_refusal_ends_here() {
    let caller = phone();
    // A service that relays the caller's requests, as for a trunk.
    let mut world = World::relaying();
    for (uri, branch) in [("sip:nobody@example.com", "1"), ("sip:bob@255.255.255.255", "2")] {
        let refused = world.one(&caller, &caller.request("INVITE", uri, branch, ""));
        assert!(
            refused.first_line().starts_with("SIP/2.0 404")
                || refused.first_line().starts_with("SIP/2.0 502")
        );
        let to = format!("To: {}", refused.line("To").unwrap());
        let ack = caller.request("ACK", uri, branch, "").replace(&format!("To: <{uri}>"), &to);
        assert!(world.receive(&caller, &ack).is_empty(), "{ack}");
    }
    let refused =
        world.one(&caller, &caller.request("INVITE", "sip:x@192.0.2.77", "3", "Proxy-Require: magic\r\n"));
    let to = format!("To: {}", refused.line("To").unwrap());
    let ack = caller.request("ACK", "sip:x@192.0.2.77", "3", "").replace("To: <sip:x@192.0.2.77>", &to);
    assert!(world.receive(&caller, &ack).is_empty(), "{ack}");
    // An ACK of an earlier run doesn't loop either.
    let late = caller
        .request("ACK", "sip:nobody@example.com", "4", "")
        .replace("com>\r\nCall", "com>;tag=old\r\nCall");
    assert!(world.receive(&caller, &late).is_empty());
    assert!(world.service.servers_mut().take_wanted().is_empty());
    // The ACK of a 2xx is forwarded.
    let ack =
        caller.request("ACK", "sip:x@192.0.2.77", "5", "").replace("77>\r\nCall", "77>;tag=theirs\r\nCall");
    assert_eq!(world.one(&caller, &ack).flow.peer, "192.0.2.77:5060".parse().unwrap());
}

#[test]
fn forbidden_uri_parts_are_removed() {
    let (mut world, phone, bob) = (World::new(), phone(), Phone::udp("192.0.2.2:5060"));
    for (cseq, contact, uri) in [
        (1, "sip:bob@192.0.2.2?Route=%3Csip:192.0.2.66%3E", "sip:bob@192.0.2.2"),
        (2, "sip:bob@192.0.2.2;method=BYE;x=1?a=b&c=d", "sip:bob@192.0.2.2;x=1"),
        (3, "sip:b?o;method=x@192.0.2.2;lr;Method=REGISTER", "sip:b?o;method=x@192.0.2.2;lr"),
        (4, "sip:bob@192.0.2.2;m%65thod=BYE", "sip:bob@192.0.2.2"),
        (5, "sip:bob@192.0.2.2;methods=BYE", "sip:bob@192.0.2.2;methods=BYE"),
    ] {
        world.one(&bob, &bob.register("bob", 2 * cseq, "Contact: *\r\nExpires: 0\r\n"));
        let ok = world.one(&bob, &bob.register("bob", 2 * cseq + 1, &format!("Contact: <{contact}>\r\n")));
        // The contact is reported as it was registered (RFC 4475 section 3.3.14).
        assert_eq!(ok.line("Contact"), Some(&*format!("<{contact}>;expires=3600")));
        let sent = world.invite(&phone, &phone.invite("bob", &format!("u{cseq}")));
        assert_eq!(sent[0].first_line(), format!("INVITE {uri} SIP/2.0"));
    }
}

#[test]
fn who_asks_what_it_can_do_is_told() {
    let (mut world, phone) = (World::new(), phone());
    let told = world.one(&phone, &phone.request("OPTIONS", "sip:example.com", "1", ""));
    assert_eq!(told.first_line(), "SIP/2.0 200 OK");
    assert_eq!(told.line("Supported"), Some("path, outbound, gruu"));
    let more = "Require: magic, path, tricks\r\n";
    let refused = world.one(&phone, &phone.request("OPTIONS", "sip:example.com", "2", more));
    assert_eq!(
        (refused.first_line(), refused.line("Unsupported")),
        ("SIP/2.0 420 Bad Extension", Some("magic, tricks"))
    );
    let more = "Proxy-Require: magic\r\nProxy-Require: outbound, tricks\r\n";
    let refused = world.one(&phone, &phone.request("INVITE", "sip:bob@example.com", "3", more));
    assert_eq!(refused.line("Unsupported"), Some("magic, tricks"));
    // A Require addressed to the phone doesn't concern a proxy.
    world.register(&Phone::udp("192.0.2.2:5060"), "bob");
    let sent =
        world.invite(&phone, &phone.request("INVITE", "sip:bob@example.com", "4", "Require: magic\r\n"));
    assert_eq!(sent[0].line("Require"), Some("magic"));
}

#[test]
fn maddr_chooses_the_target_and_ends_here() {
    let (caller, bob) = (phone(), Phone::udp("192.0.2.2:5060"));
    let mut world = World::relaying();
    world.register(&bob, "bob");
    for (number, (uri, to, sent_as)) in [
        // `maddr` has led here and is removed.
        ("sip:x@192.0.2.77;maddr=198.51.100.1", "192.0.2.77:5060", "sip:x@192.0.2.77"),
        (
            "sip:x:y@192.0.2.77;a=b;m%61ddr=198.51.100.1;transport=udp;ttl=1;c",
            "192.0.2.77:5060",
            "sip:x:y@192.0.2.77;a=b;c",
        ),
        ("sip:bob@example.com;maddr=198.51.100.1", "192.0.2.2:5060", "sip:bob@192.0.2.2:5060"),
        // `maddr` leads elsewhere, whatever the domain.
        ("sip:bob@example.com;maddr=192.0.2.50", "192.0.2.50:5060", "sip:bob@example.com;maddr=192.0.2.50"),
        ("sip:x@192.0.2.77;maddr=192.0.2.50", "192.0.2.50:5060", "sip:x@192.0.2.77;maddr=192.0.2.50"),
    ]
    .into_iter()
    .enumerate()
    {
        let sent = world.invite(&caller, &caller.request("INVITE", uri, &format!("m{number}"), ""));
        assert_eq!(sent[0].flow.peer, to.parse().unwrap(), "{uri}: {}", sent[0].text);
        assert_eq!(sent[0].first_line(), format!("INVITE {sent_as} SIP/2.0"));
    }
    // A caller who may not call other hosts may not do so by `maddr` either.
    let mut world = World::new();
    world.register(&bob, "bob");
    let refused =
        world.one(&caller, &caller.request("INVITE", "sip:bob@example.com;maddr=192.0.2.50", "m9", ""));
    assert!(refused.first_line().starts_with("SIP/2.0 403"), "{}", refused.text);
}

#[test]
fn a_via_may_end_with_a_semicolon() {
    let mut world = World::new();
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5060"));
    for (number, end) in [";", "; "].into_iter().enumerate() {
        let trailing = |text: String| text.replacen(";rport\r\n", &format!(";rport{end}\r\n"), 1);
        let contact = format!("Contact: {}\r\n", bob.contact("bob"));
        let ok = world.one(&bob, &trailing(bob.register("bob", 1, &contact)));
        assert_eq!(ok.first_line(), "SIP/2.0 200 OK");
        let sent = world
            .one(&alice, &trailing(alice.request("MESSAGE", "sip:bob@example.com", &number.to_string(), "")));
        assert_eq!(sent.flow, bob.0);
        let told = world.one(&bob, &crate::harness::response(&sent.text, 200, "b"));
        assert_eq!((told.flow, told.first_line()), (alice.0, "SIP/2.0 200 OK"));
    }
    let text = alice.request("MESSAGE", "sip:bob@example.com", "two", "").replacen(";rport", ";;rport", 1);
    assert_eq!(world.one(&alice, &text).first_line(), "SIP/2.0 400 Malformed parameter");
}

/// The lines of a message that end with a semicolon, or have one before a bracket.
fn empty_params(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.trim_end().ends_with(';') || line.contains(";>")).collect()
}

#[test]
fn addresses_may_end_with_a_semicolon() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5060"));
    let none: [&str; 0] = [];
    for end in [";", " ; "] {
        let mut world = World::new();
        for (cseq, contact) in [
            (1, format!("<sip:bob@192.0.2.2:5060>{end}")),
            (2, format!("<sip:bob@192.0.2.2:5060>;q=0.5{end}, <sip:bob@192.0.2.3>{end}")),
            (3, "<sip:bob@192.0.2.2:5060;>".to_owned()),
            (4, "<sip:bob@192.0.2.2:5060;ob;>".to_owned()),
        ] {
            let text = bob.register("bob", cseq, &format!("Contact: {contact}\r\n"));
            let text = text.replace(";tag=r\r\n", &format!(";tag=r{end}\r\n"));
            let text = text.replace("To: <sip:bob@example.com>", &format!("To: <sip:bob@example.com>{end}"));
            let ok = world.one(&bob, &text);
            assert_eq!(ok.first_line(), "SIP/2.0 200 OK", "{contact}");
            assert_eq!(empty_params(&ok.text), none, "{}", ok.text);
            assert!(ok.line("To").unwrap().starts_with("<sip:bob@example.com>;tag="), "{}", ok.text);
        }
        // As a request URI, and in Route, From and To of a request to the phone.
        let mut world = World::new();
        world.register_with(&bob, "bob", "Contact: <sip:bob@192.0.2.2:5060;>\r\n");
        let more = format!("Route: <sip:198.51.100.1;lr>{end}\r\n");
        let text = alice.request("MESSAGE", "sip:bob@example.com;", "u", &more);
        let text = text.replace(";tag=alice\r\n", &format!(";tag=alice{end}\r\n"));
        let sent = world.one(&alice, &text);
        assert_eq!((sent.flow, sent.first_line()), (bob.0, "MESSAGE sip:bob@192.0.2.2:5060 SIP/2.0"));
        assert_eq!(sent.line("Route"), None);
    }
    // Two are a mistake, and so is an empty one that isn't last.
    let mut world = World::new();
    for contact in ["<sip:bob@192.0.2.2>;;", "<sip:bob@192.0.2.2>;;q=1", "<sip:bob@192.0.2.2;;>"] {
        let text = bob.register("bob", 9, &format!("Contact: {contact}\r\n"));
        assert!(world.one(&bob, &text).first_line().starts_with("SIP/2.0 400"), "{contact}");
    }
}

#[test]
fn a_path_may_end_with_a_semicolon() {
    let mut world = World::new();
    let (alice, edge) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.9:5060"));
    let more = "Supported: path\r\nContact: <sip:bob@10.0.0.1>\r\nPath: <sip:192.0.2.9;lr>;\r\n\
                Path: <sip:192.0.2.8;lr>; ,<sip:192.0.2.7;lr>;x=1\r\n";
    world.register_with(&edge, "bob", more);
    let sent = world.one(&alice, &alice.request("MESSAGE", "sip:bob@example.com", "1", ""));
    assert_eq!(sent.line("Route"), Some("<sip:192.0.2.9;lr>,<sip:192.0.2.8;lr>,<sip:192.0.2.7;lr>;x=1"));
}
