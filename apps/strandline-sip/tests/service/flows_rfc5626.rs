use crate::harness::{Phone, World, response};

const OUTBOUND: &str = "Supported: path, outbound\r\nContact: <sip:bob@192.0.2.2:40000;transport=tcp;ob>;reg-id=1;\
                        +sip.instance=\"<urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF>\"\r\n";

#[test]
fn contact_uses_its_connection_and_ends_with_it() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::tcp("192.0.2.2:40000", 9));
    let mut world = World::new();
    world.service.connection_opened(9);
    let ok = world.one(&bob, &bob.register("bob", 1, OUTBOUND));
    assert_eq!(ok.line("Require"), Some("outbound"));
    assert!(ok.line("Flow-Timer").is_some());
    let sent = world.invite(&alice, &alice.invite("bob", "1"));
    assert_eq!(sent[0].flow, bob.0);
    world.service.connection_closed(9);
    assert!(world.service.registrations().locations().is_empty());
    assert_eq!(world.one(&alice, &alice.invite("bob", "2")).first_line(), "SIP/2.0 404 Not Found");
}

#[test]
fn new_flow_of_an_instance_replaces_the_old() {
    let (alice, old, new) =
        (Phone::udp("192.0.2.1:5060"), Phone::tcp("192.0.2.2:40000", 9), Phone::tcp("192.0.2.2:40001", 10));
    let mut world = World::new();
    world.service.connection_opened(9);
    world.service.connection_opened(10);
    world.one(&old, &old.register("bob", 1, OUTBOUND));
    let ok = world.one(&new, &new.register("bob", 2, &OUTBOUND.replace("40000", "40001")));
    assert_eq!(ok.lines("Contact").len(), 1);
    world.service.connection_closed(9);
    assert_eq!(world.invite(&alice, &alice.invite("bob", "1"))[0].flow, new.0);
}

#[test]
fn contact_behind_another_hop_uses_its_address() {
    let (alice, hop) = (Phone::udp("192.0.2.1:5060"), Phone::udp("203.0.113.5:5060"));
    let register = hop.register("bob", 1, "Contact: <sip:bob@10.0.0.5:5070>\r\n");
    let second = "SIP/2.0/UDP 10.0.0.5:5070;branch=z9hG4bKbob";
    let direct = register.replacen("Via: ", "Via:  ", 1);
    let one_line = register.replacen(";rport\r\n", &format!(";rport , {second}\r\n"), 1);
    let folded = register.replacen(";rport\r\n", &format!(";rport,\r\n {second}\r\n"), 1);
    let two_lines = register.replacen("From: ", &format!("v: {second}\r\nFrom: "), 1);
    for (text, at) in [
        (direct, "203.0.113.5:5060"),
        (one_line, "10.0.0.5:5070"),
        (folded, "10.0.0.5:5070"),
        (two_lines, "10.0.0.5:5070"),
    ] {
        let mut world = World::new();
        assert_eq!(world.one(&hop, &text).first_line(), "SIP/2.0 200 OK", "{text}");
        let sent = world.invite(&alice, &alice.invite("bob", "1"));
        assert_eq!(sent[0].flow.peer, at.parse().unwrap(), "{text}");
    }
}

#[test]
fn outbound_option_is_recognised_in_any_spelling() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::tcp("192.0.2.2:40000", 9));
    for (params, asks) in [
        (";ob", true),
        (";OB", true),
        (";x=1;%6fb", true),
        (";o%62=1", true),
        (";obo", false),
        (";x=ob", false),
    ] {
        let mut world = World::new();
        world.register_with(
            &bob,
            "bob",
            &format!("Contact: <sip:bob@192.0.2.2:5060;transport=tcp{params}>\r\n"),
        );
        world.service.connection_closed(9);
        let sent = world.receive(&alice, &alice.invite("bob", "1"));
        // The binding was removed with the connection, or the phone is reached at its address.
        assert_eq!(sent[0].first_line() == "SIP/2.0 404 Not Found", asks, "{params}: {sent:#?}");
    }
}

#[test]
fn contact_parameters_are_kept_except_reserved_ones() {
    let bob = Phone::udp("192.0.2.2:5060");
    let mut world = World::new();
    for (cseq, said, kept) in [
        (1, ";q=0.5;a=\"b;c\"", ";q=0.5;a=\"b;c\";expires=3600"),
        (2, ";a;EXPIRES=90;b=c", ";a;b=c;expires=90"),
        (3, ";temp-gruu=\"sip:x@y;gr\";q=1;Pub-Gruu=z", ";q=1;expires=3600"),
        (4, "", ";expires=3600"),
    ] {
        let ok =
            world.one(&bob, &bob.register("bob", cseq, &format!("Contact: <sip:bob@192.0.2.2>{said}\r\n")));
        assert_eq!(ok.line("Contact"), Some(&*format!("<sip:bob@192.0.2.2>{kept}")), "{said}");
    }
}

#[test]
fn phone_behind_nat_is_reached_at_its_source() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::udp("203.0.113.5:61234"));
    let mut world = World::new();
    world.register_with(&bob, "bob", "Contact: <sip:bob@10.0.0.5:5060>\r\n");
    let sent = world.invite(&alice, &alice.invite("bob", "1"));
    assert_eq!(sent[0].flow, bob.0);
    assert_eq!(sent[0].first_line(), "INVITE sip:bob@10.0.0.5:5060 SIP/2.0");
}

#[test]
fn reachable_contact_is_used_without_connection() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::tcp("192.0.2.2:40000", 9));
    let mut world = World::new();
    world.register_with(&bob, "bob", "Contact: <sip:bob@192.0.2.2:5060;transport=tcp>\r\n");
    assert_eq!(world.invite(&alice, &alice.invite("bob", "1"))[0].flow, bob.0);
    world.service.connection_closed(9);
    let sent = world.invite(&alice, &alice.invite("bob", "2"));
    assert_eq!((sent[0].flow.connection, sent[0].flow.peer), (0, "192.0.2.2:5060".parse().unwrap()));
}

#[test]
fn request_falls_back_to_the_contact_address() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::tcp("192.0.2.2:40000", 9));
    for (contact, falls_back) in [
        ("<sip:bob@192.0.2.2:5060;transport=tcp>", true),
        // The phone asked for its flow, or is behind a NAT.
        ("<sip:bob@192.0.2.2:5060;transport=tcp;ob>", false),
        ("<sip:bob@10.0.0.2:5060;transport=tcp>", false),
    ] {
        for sent_before in [false, true] {
            let mut world = World::new();
            world.register_with(&bob, "bob", &format!("Contact: {contact}\r\n"));
            let what = format!("{contact} {sent_before}");
            world.service.handle_message(world.now, alice.0, alice.invite("bob", "1").as_bytes());
            let client = world.service.output().out.iter().find_map(|(item, _)| item.client).unwrap();
            let invite = world.sent().remove(0);
            assert_eq!(invite.flow, bob.0, "{what}");
            match sent_before {
                // The message was lost with the connection, whose end is noticed a moment later.
                true => world.service.connection_closed(9),
                false => world.service.send_failed(world.now, client),
            }
            let sent = world.run_until(20);
            if falls_back {
                let again = sent.iter().find(|sent| sent.first_line().starts_with("INVITE")).expect(&what);
                assert_eq!((again.flow.connection, again.flow.peer), (0, "192.0.2.2:5060".parse().unwrap()));
                let ok = world.one(&bob, &response(&again.text, 200, "b"));
                assert_eq!((ok.first_line(), ok.flow), ("SIP/2.0 200 OK", alice.0), "{what}");
            } else {
                assert!(
                    sent.iter().all(|sent| !sent.first_line().starts_with("INVITE")),
                    "{what}: {sent:#?}"
                );
            }
        }
    }
}

#[test]
fn answered_phone_is_not_retried_on_close() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::tcp("192.0.2.2:40000", 9));
    let mut world = World::new();
    world.register_with(&bob, "bob", "Contact: <sip:bob@192.0.2.2:5060;transport=tcp>\r\n");
    let sent = world.invite(&alice, &alice.invite("bob", "1"));
    world.receive(&bob, &response(&sent[0].text, 180, "b"));
    world.service.connection_closed(9);
    assert!(world.run_until(100).is_empty());
}

#[test]
fn binding_of_an_earlier_run_is_480() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::tcp("192.0.2.2:40000", 9));
    let mut before = World::journaled();
    before.register_with(&bob, "bob", OUTBOUND);
    let mut world = World::new();
    for (aor, state) in strandline_sip::bindings::Journal::read(before.service.output().journal.as_bytes()) {
        world.service.load("", aor, state);
    }
    let gone = world.one(&alice, &alice.invite("bob", "1"));
    assert_eq!(gone.first_line(), "SIP/2.0 480 Temporarily Unavailable");
}

#[test]
fn flow_timer_closes_only_silent_flows() {
    let secs = |secs| Some(std::time::Duration::from_secs(secs));
    let mut world = World::new();
    let (timed, bound) = (Phone::tcp("192.0.2.2:40000", 9), Phone::tcp("192.0.2.3:40000", 10));
    world.service.connection_opened(9);
    world.one(&timed, &timed.register("bob", 1, OUTBOUND));
    world.register(&bound, "alice");
    world.service.connection_opened(11);
    assert_eq!(world.service.silence_max(9, None), secs(150));
    assert_eq!(world.service.silence_max(10, secs(300)), None);
    assert_eq!(world.service.silence_max(11, secs(300)), secs(300));
    for connection in [9, 10] {
        world.service.connection_closed(connection);
        assert_eq!(world.service.silence_max(connection, secs(300)), secs(300));
    }
}

#[test]
fn phone_without_flow_hears_nothing_of_flows() {
    let (mobile, desk) = (Phone::tcp("192.0.2.2:40000", 9), Phone::tcp("192.0.2.3:40000", 10));
    let mut world = World::new();
    world.register_with(&mobile, "bob", OUTBOUND);
    world.service.connection_opened(10);
    let plain = "Supported: path, outbound\r\nContact: <sip:bob@192.0.2.3:40000;transport=tcp>\r\n";
    for more in [plain, "Supported: outbound\r\n"] {
        let desk_registers = desk.register("bob", 1, more).replace("reg-bob", "reg-desk");
        let ok = world.one(&desk, &desk_registers);
        assert_eq!((ok.line("Require"), ok.line("Flow-Timer")), (None, None), "{}", ok.text);
        // So no silence limit applies, of which the phone doesn't know.
        assert_eq!(world.service.silence_max(10, None), None);
    }
    // A retransmitted request gets the same answer.
    let again = world.one(&mobile, &mobile.register("bob", 1, OUTBOUND));
    assert_eq!(again.line("Require"), Some("outbound"));
}

#[test]
fn instances_are_compared_as_urns() {
    let (old, new) = (Phone::tcp("192.0.2.2:40000", 9), Phone::tcp("192.0.2.2:40001", 10));
    let mut world = World::new();
    world.register_with(&old, "bob", OUTBOUND);
    world.service.connection_opened(10);
    let small = OUTBOUND.replace("AABBCCDDEEFF", "aabbccddeeff").replace("40000", "40001");
    let ok = world.one(&new, &new.register("bob", 2, &small));
    assert_eq!(ok.lines("Contact").len(), 1, "{}", ok.text);
}

#[test]
fn a_flow_is_registered_alone() {
    let bob = Phone::tcp("192.0.2.2:40000", 9);
    let mut world = World::new();
    world.service.connection_opened(9);
    let two = format!("{OUTBOUND}Contact: <sip:bob@192.0.2.7>\r\n");
    let refused = world.one(&bob, &bob.register("bob", 1, &two));
    assert_eq!(refused.first_line(), "SIP/2.0 400 reg-id Allows Only One Contact", "{}", refused.text);
    assert!(world.service.registrations().locations().is_empty());
    // The same request may remove other contacts.
    let moves = format!("{OUTBOUND}Contact: <sip:bob@192.0.2.7>;expires=0\r\n");
    let ok = world.one(&bob, &bob.register("bob", 2, &moves));
    assert_eq!(ok.lines("Contact").len(), 1, "{}", ok.text);
}
