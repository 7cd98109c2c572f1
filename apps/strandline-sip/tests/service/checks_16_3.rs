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
fn a_loop_is_found_and_a_spiral_is_none() {
    let (mut world, phone) = (World::relaying(), phone());
    world.register(&Phone::udp("192.0.2.2:5060"), "bob");
    let sent = world.invite(&phone, &phone.invite("bob", "1"));
    // It comes back as it was sent in the first place, with the Vias that it collected.
    let vias = sent[0].lines("Via").iter().map(|via| format!("Via: {via}\r\n")).collect::<String>();
    let own = phone.invite("bob", "1");
    let at = own.find("Via:").unwrap();
    let end = own.find("Max-Forwards").unwrap();
    let far = Phone::udp("192.0.2.3:5060");
    let back =
        format!("{}Via: SIP/2.0/UDP 192.0.2.3:5060;branch=z9hG4bKfar\r\n{vias}{}", &own[..at], &own[end..]);
    assert_eq!(world.one(&far, &back).first_line(), "SIP/2.0 482 Loop Detected");
    // With another request URI it goes on.
    let spiral = back.replace("z9hG4bKfar", "z9hG4bKfar2").replace("INVITE sip:bob@", "INVITE sip:carol@");
    world.register(&Phone::udp("192.0.2.4:5060"), "carol");
    assert_eq!(world.invite(&far, &spiral).len(), 1);
}

#[test]
fn what_is_required_of_a_proxy_must_be_known() {
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
    // Without rport, to the port that its Via names (RFC 3261 section 18.2.2): but never to another address.
    let unasked = asked.replace(";rport", ";maddr=192.0.2.50");
    let answer = world.one(&phone, &unasked);
    assert_eq!(answer.flow.peer, "203.0.113.9:5062".parse().unwrap());
}
