use crate::harness::{Phone, World};

const PATH: &str = "Supported: path\r\nPath: <sip:token@192.0.2.50:5070;lr>\r\nPath: <sip:192.0.2.51;lr>\r\n\
                    Contact: <sip:bob@10.0.0.5>\r\n";

#[test]
fn request_follows_the_registered_path() {
    let (alice, edge) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.50:5070"));
    let mut world = World::new();
    let ok = world.one(&edge, &edge.register("bob", 1, PATH));
    assert_eq!(ok.lines("Path"), ["<sip:token@192.0.2.50:5070;lr>", "<sip:192.0.2.51;lr>"]);
    let sent = world.invite(&alice, &alice.invite("bob", "1"));
    assert_eq!(sent[0].flow.peer, "192.0.2.50:5070".parse().unwrap());
    assert_eq!(sent[0].first_line(), "INVITE sip:bob@10.0.0.5 SIP/2.0");
    assert_eq!(sent[0].lines("Route"), ["<sip:token@192.0.2.50:5070;lr>,<sip:192.0.2.51;lr>"]);
}

#[test]
fn phone_without_path_support_gets_no_path() {
    let edge = Phone::udp("192.0.2.50:5070");
    let mut world = World::new();
    let refused = world.one(&edge, &edge.register("bob", 1, &PATH.replace("Supported: path\r\n", "")));
    assert_eq!(
        (refused.first_line(), refused.line("Unsupported")),
        ("SIP/2.0 420 Bad Extension", Some("path"))
    );
    assert!(world.service.registrations().locations().is_empty());
}

#[test]
fn flows_need_a_first_hop_that_keeps_them() {
    let edge = Phone::udp("192.0.2.50:5070");
    let flows =
        PATH.replace("<sip:bob@10.0.0.5>", "<sip:bob@10.0.0.5>;reg-id=1;+sip.instance=\"<urn:uuid:1>\"");
    let mut world = World::new();
    let asks = flows.replace("Supported: path", "Supported: path, outbound");
    let refused = world.one(&edge, &edge.register("bob", 1, &asks));
    assert_eq!(refused.first_line(), "SIP/2.0 439 First Hop Lacks Outbound Support");
    assert!(world.service.registrations().locations().is_empty());
    // A phone that doesn't ask for outbound is registered without it.
    let ok = world.one(&edge, &edge.register("bob", 2, &flows));
    assert_eq!((ok.first_line(), ok.line("Require")), ("SIP/2.0 200 OK", None));
    let keeps = asks.replace("192.0.2.51;lr", "192.0.2.51;lr;ob");
    let ok = world.one(&edge, &edge.register("bob", 3, &keeps));
    assert_eq!((ok.first_line(), ok.line("Require")), ("SIP/2.0 200 OK", Some("outbound")));
}

#[test]
fn flow_timer_is_for_direct_flows() {
    // RFC 5626 section 6: the edge proxy maintains the flow, and its own connection needs no keep-alive every
    // two minutes.
    let edge = Phone::tcp("192.0.2.50:5070", 7);
    let flows =
        PATH.replace("<sip:bob@10.0.0.5>", "<sip:bob@10.0.0.5>;reg-id=1;+sip.instance=\"<urn:uuid:1>\"");
    let keeps = flows.replace("Supported: path", "Supported: path, outbound").replace("51;lr", "51;lr;ob");
    let mut world = World::new();
    world.service.connection_opened(7);
    let ok = world.one(&edge, &edge.register("bob", 1, &keeps));
    assert_eq!((ok.first_line(), ok.line("Require")), ("SIP/2.0 200 OK", Some("outbound")));
    assert_eq!(ok.line("Flow-Timer"), None);
    let idle = std::time::Duration::from_secs(1800);
    assert_eq!(world.service.silence_max(7, Some(idle)), Some(idle));
}
