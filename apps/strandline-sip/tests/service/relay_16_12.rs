//! No open relay: where requests with a token or a GRUU may go (RFC 3261 sections 16.4 and 16.12, decision
//! 73).

use std::time::Duration;

use strandline_sip::resolution::{Answer, Found, Server};
use strandline_sip::service::{Relay, Settings};
use strandline_sip::transaction::{Flow, Protocol};

use crate::harness::{Phone, Sent, World, in_dialog, response, settings};

const VICTIM: &str = "<sip:203.0.113.66:25;transport=tcp;lr>";

fn alice() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

fn bob() -> Phone {
    Phone::udp("192.0.2.2:5070")
}

/// A service that relays requests only from the given networks.
fn world(from: &[&str]) -> World {
    let from = from.iter().map(|network| (network.parse().unwrap(), 32)).collect();
    World::with(Settings { relay: Relay { open: false, from }, names_max: 100, ..settings() })
}

/// A request in the dialog, with more Routes after this server's.
fn routed(request: &str, routes: &str) -> String {
    request.replacen("From:", &format!("Route: {routes}\r\nFrom:"), 1)
}

fn answer(world: &mut World, addresses: &[&str], protocol: Protocol) -> Vec<Sent> {
    let now = world.now;
    let addresses = addresses.iter().map(|one| one.parse().unwrap()).collect();
    let server = Server { protocol, priority: 0, weight: 0, addresses };
    for question in world.service.servers_mut().take_wanted() {
        let found = Found::Servers(vec![server.clone()]);
        world.service.handle_dns_answer(now, &question, Answer { found, ttl: Duration::from_secs(60) });
    }
    world.sent()
}

/// A call from `caller` to a user at `callee`. Returns the 200 that the caller receives.
fn call(world: &mut World, caller: &Phone, callee: &Phone, more: &str) -> String {
    world.register(callee, "bob");
    let invite = caller.request("INVITE", "sip:bob@example.com", "1", more);
    let sent = world.invite(caller, &invite).remove(0);
    let ok = world.receive(callee, &response(&sent.text, 200, "bob"));
    ok.into_iter().find(|sent| sent.first_line().contains(" 200 ")).unwrap().text
}

#[test]
fn token_leads_only_to_its_dialogs_ends() {
    for routes in [VICTIM, "<sip:victim.example;lr>", "<sip:203.0.113.66>", "<sips:victim.example;lr>"] {
        for from_caller in [true, false] {
            let mut world = world(&[]);
            let ok = call(&mut world, &alice(), &bob(), "");
            let (phone, other) = if from_caller { (alice(), bob()) } else { (bob(), alice()) };
            for (cseq, method) in ["INFO", "ACK"].into_iter().enumerate() {
                let request =
                    in_dialog(method, &ok, "sip:x@203.0.113.66", &phone, 2 + cseq as u32, from_caller);
                let sent = world.receive(&phone, &routed(&request, routes));
                assert!(world.service.servers_mut().take_wanted().is_empty(), "{routes}");
                assert_eq!(sent.len(), 1, "{sent:#?}");
                assert_eq!(sent[0].flow.peer, other.0.peer, "{routes} {}", sent[0].text);
            }
        }
    }
}

#[test]
fn tls_dialogs_token_leads_to_its_domain() {
    let mut world = world(&["192.0.2.1"]);
    let stranger = Phone::udp("192.0.2.7:5060");
    world.invite(&alice(), &alice().request("INVITE", "sips:bob@partner.example", "1", ""));
    let sent = answer(&mut world, &["203.0.113.1:5061"], Protocol::Tls).remove(0);
    let passed = world.receive(&Phone(sent.flow), &response(&sent.text, 200, "bob")).remove(0);
    for (number, (uri, routes, leads_to)) in [
        ("sips:bob@partner.example", None, "partner.example"),
        ("sips:bob@victim.example", None, "partner.example"),
        ("sips:bob@203.0.113.66", None, "partner.example"),
        ("sips:bob@203.0.113.66", Some("<sips:victim.example;lr>"), "partner.example"),
        ("sips:bob@203.0.113.66", Some("<sips:notpartner.example;lr>"), "partner.example"),
        ("sips:bob@203.0.113.66", Some("<sips:edge.partner.example;lr>"), "edge.partner.example"),
    ]
    .into_iter()
    .enumerate()
    {
        let info = in_dialog("INFO", &passed.text, uri, &stranger, 2 + number as u32, true);
        let info = routes.map_or_else(|| info.clone(), |routes| routed(&info, routes));
        let mut sent = world.receive(&stranger, &info);
        sent.extend(answer(&mut world, &["203.0.113.1:5061"], Protocol::Tls));
        assert_eq!(sent.len(), 1, "{sent:#?}");
        assert_eq!(sent[0].flow.protocol, Protocol::Tls, "{}", sent[0].text);
        assert_eq!(world.service.servers().domain(&sent[0].flow), Some(leads_to), "{uri} {routes:?}");
    }
}

#[test]
fn proxy_on_the_path_is_followed() {
    // A proxy with relay permission states its name, by which it can be found again.
    let mut world = world(&["203.0.113.9"]);
    let edge = Phone::tcp("203.0.113.9:40000", 7);
    world.service.connection_opened(7);
    let record = "Record-Route: <sip:edge.partner.example;transport=tcp;lr>\r\n";
    let ok = call(&mut world, &edge, &bob(), record);
    for (cseq, gone) in [false, true].into_iter().enumerate() {
        if gone {
            world.service.connection_closed(7);
        }
        let bye = in_dialog("INFO", &ok, "sip:alice@10.0.0.1", &bob(), 2 + cseq as u32, false);
        assert!(bye.contains("Route: <sip:edge.partner.example"), "{bye}");
        let mut sent = world.receive(&bob(), &bye);
        sent.extend(answer(&mut world, &["203.0.113.77:5060"], Protocol::Tcp));
        assert_eq!((sent.len(), sent[0].flow.peer.ip()), (1, "203.0.113.77".parse().unwrap()), "{sent:#?}");
    }
}

#[test]
fn strangers_name_leads_only_to_its_address() {
    for (leads_to, code) in
        [("203.0.113.9:5060", None), ("203.0.113.66:5060", Some("SIP/2.0 430 Flow Failed"))]
    {
        let mut world = world(&[]);
        let edge = Phone::tcp("203.0.113.9:40000", 7);
        world.service.connection_opened(7);
        let record = "Record-Route: <sip:edge.partner.example;transport=tcp;lr>\r\n";
        let ok = call(&mut world, &edge, &bob(), record);
        let info = |cseq| in_dialog("INFO", &ok, "sip:alice@10.0.0.1", &bob(), cseq, false);
        // Its connection is used while it exists.
        let sent = world.one(&bob(), &info(2));
        assert_eq!(sent.flow, edge.0);
        assert_eq!(sent.lines("Route"), ["<sip:edge.partner.example;transport=tcp;lr>"]);
        world.service.connection_closed(7);
        assert!(world.receive(&bob(), &info(3)).is_empty());
        let sent = answer(&mut world, &[leads_to], Protocol::Tcp).remove(0);
        match code {
            None => assert_eq!(sent.flow, Flow::to(Protocol::Tcp, leads_to.parse().unwrap())),
            Some(code) => assert_eq!(sent.first_line(), code),
        }
        // An ACK, which gets no error response, and a request to a name whose servers are known by now.
        let ack = world.receive(&bob(), &in_dialog("ACK", &ok, "sip:alice@10.0.0.1", &bob(), 4, false));
        assert_eq!(ack.len(), usize::from(code.is_none()), "{ack:#?}");
        let sent = world.one(&bob(), &info(5));
        assert_eq!(sent.first_line().starts_with("INFO"), code.is_none(), "{}", sent.text);
    }
}

#[test]
fn next_route_at_the_peers_address_counts() {
    let mut world = world(&[]);
    let edge = Phone::udp("203.0.113.9:6000");
    let ok = call(&mut world, &edge, &bob(), "Record-Route: <sip:203.0.113.9:5062;transport=tcp;lr>\r\n");
    let sent = world.one(&bob(), &in_dialog("INFO", &ok, "sip:alice@10.0.0.1", &bob(), 2, false));
    assert_eq!(sent.flow, Flow::to(Protocol::Tcp, "203.0.113.9:5062".parse().unwrap()));
}

#[test]
fn gruu_ignores_a_strangers_route() {
    for (from, allowed) in [(&[][..], false), (&["192.0.2.1"][..], true)] {
        let mut world = world(from);
        let phone = Phone::tcp("192.0.2.2:40000", 9);
        world.service.connection_opened(9);
        let contact = "Supported: gruu\r\nContact: <sip:bob@192.0.2.2:40000;transport=tcp>;\
                       +sip.instance=\"<urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF>\"\r\n";
        let ok = world.one(&phone, &phone.register("bob", 1, contact));
        let gruu = ok.text.split("pub-gruu=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        for (branch, method) in ["INVITE", "ACK"].into_iter().enumerate() {
            let routes = format!("Route: <sip:198.51.100.1;lr>, {VICTIM}\r\n");
            let text = alice().request(method, &gruu, &branch.to_string(), &routes);
            let sent = world.receive(&alice(), &text);
            let reached = sent.iter().any(|one| one.flow.peer.ip().to_string() == "203.0.113.66");
            assert_eq!(reached, allowed, "{method} {sent:#?}");
            let denied = sent.iter().any(|one| one.first_line() == "SIP/2.0 403 Relaying Denied");
            assert_eq!(denied, !allowed && method == "INVITE", "{sent:#?}");
        }
    }
}
