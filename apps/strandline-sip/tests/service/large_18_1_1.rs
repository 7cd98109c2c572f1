//! Requests that are too large for a datagram: RFC 3261 section 18.1.1.

use std::time::Duration;

use strandline_sip::resolution::{Answer, Found, Server};
use strandline_sip::service::{Relay, Settings};
use strandline_sip::transaction::{ClientId, Flow, Protocol};

use crate::harness::{Phone, Sent, World, in_dialog, response, settings};

fn alice() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

fn bob() -> Phone {
    Phone::udp("192.0.2.2:5070")
}

/// A header with a value of `len` bytes.
fn filler(len: usize) -> String {
    format!("Subject: {}\r\n", "x".repeat(len))
}

fn large(branch: &str) -> String {
    alice().request("INVITE", "sip:bob@example.com", branch, &filler(1200))
}

/// Sends a request, and returns it as forwarded, with its transaction.
fn forwarded(world: &mut World, text: &str) -> (Sent, ClientId) {
    world.service.handle_message(world.now, alice().0, text.as_bytes());
    let client = world.service.output().out.iter().find_map(|(item, _)| item.client).unwrap();
    let sent = world.sent().into_iter().find(|sent| !sent.first_line().starts_with("SIP/2.0")).unwrap();
    (sent, client)
}

fn over(protocol: Protocol, phone: &Phone) -> Flow {
    Flow::to(protocol, phone.0.peer)
}

#[test]
fn request_over_1300_bytes_uses_tcp() {
    let mut world = World::new();
    world.register(&bob(), "bob");
    let (sent, _) = forwarded(&mut world, &large("1"));
    assert_eq!(sent.flow, over(Protocol::Tcp, &bob()));
    assert!(sent.line("Via").unwrap().starts_with("SIP/2.0/TCP 198.51.100.1;"), "{}", sent.text);
    assert!(sent.line("Record-Route").unwrap().contains(";transport=tcp;lr"), "{}", sent.text);
    // The dialog continues over TCP, and over UDP towards the caller.
    let ok = world.one(&Phone(sent.flow), &response(&sent.text, 200, "bob"));
    assert_eq!(ok.flow, alice().0);
    let bye = world.one(&alice(), &in_dialog("BYE", &ok.text, "sip:bob@192.0.2.2:5070", &alice(), 2, true));
    assert_eq!(bye.flow, over(Protocol::Tcp, &bob()));
}

#[test]
fn the_limit_counts_for_what_is_sent() {
    let sizes = [300, 500, 600, 650, 700, 750, 800, 900].map(|len| {
        let mut world = World::new();
        world.register(&bob(), "bob");
        let text = alice().request("INVITE", "sip:bob@example.com", "1", &filler(len));
        let (sent, _) = forwarded(&mut world, &text);
        (sent.text.len(), sent.flow.protocol)
    });
    let largest = sizes.iter().filter(|(_, protocol)| *protocol == Protocol::Udp).map(|(len, _)| *len).max();
    let least = sizes.iter().filter(|(_, protocol)| *protocol == Protocol::Tcp).map(|(len, _)| *len).min();
    assert!(largest.is_some_and(|largest| largest <= 1300), "{sizes:?}");
    assert!(least.is_some_and(|least| least > 1300), "{sizes:?}");
}

#[test]
fn refused_tcp_falls_back_to_udp_at_once() {
    for method in ["INVITE", "MESSAGE"] {
        let mut world = World::new();
        world.register(&bob(), "bob");
        let text = large("1").replace("INVITE", method);
        let (sent, client) = forwarded(&mut world, &text);
        assert_eq!(sent.flow.protocol, Protocol::Tcp);
        world.service.send_failed(world.now, client);
        let again = world.sent().remove(0);
        assert_eq!(again.flow, bob().0);
        assert!(again.line("Via").unwrap().starts_with("SIP/2.0/UDP"), "{}", again.text);
        assert_ne!(again.line("Via"), sent.line("Via"));
        let ok = world.receive(&bob(), &response(&again.text, 200, "bob"));
        assert_eq!(ok.last().unwrap().first_line(), "SIP/2.0 200 OK");
        let (next, _) = forwarded(&mut world, &text.replace("z9hG4bK1", "z9hG4bK2").replace("call", "2"));
        assert_eq!(next.flow, bob().0);
        // After a while, TCP is tried again.
        world.run_until(301_000);
        let (later, _) = forwarded(&mut world, &text.replace("z9hG4bK1", "z9hG4bK3").replace("call", "3"));
        assert_eq!(later.flow.protocol, Protocol::Tcp);
    }
}

#[test]
fn large_request_behind_nat_uses_its_flow() {
    let mut world = World::new();
    let nat = Phone::udp("203.0.113.5:61234");
    world.register_with(&nat, "bob", "Contact: <sip:bob@10.0.0.5:5060>\r\n");
    let (sent, _) = forwarded(&mut world, &large("1"));
    assert_eq!(sent.flow, nat.0);
    // Within the dialog as well, where nothing says that the phone listens on TCP.
    let ok = world.receive(&nat, &response(&sent.text, 200, "bob")).remove(0);
    let info = in_dialog("INFO", &ok.text, "sip:bob@10.0.0.5:5060", &alice(), 2, true);
    let info = info.replace("Content-Length", &format!("{}Content-Length", filler(1200)));
    assert_eq!(world.one(&alice(), &info).flow, nat.0);
}

#[test]
fn without_tcp_or_limit_udp_carries_all() {
    let mut without = settings();
    without.advertised.retain(|one| one.protocol != Protocol::Tcp);
    let unlimited = Settings { udp_request_bytes_max: 0, ..settings() };
    for settings in [without, unlimited] {
        let mut world = World::with(settings);
        world.register(&bob(), "bob");
        assert_eq!(forwarded(&mut world, &large("1")).0.flow, bob().0);
    }
}

#[test]
fn named_server_is_tried_by_tcp_then_udp() {
    let relay = Relay { open: true, from: Vec::new() };
    let mut world = World::with(Settings { relay, names_max: 10, ..settings() });
    world.service.handle_message(
        world.now,
        alice().0,
        large("1").replace("example.com", "other.example").as_bytes(),
    );
    world.sent();
    let server = |last: u8| Server {
        protocol: Protocol::Udp,
        priority: u16::from(last),
        weight: 0,
        addresses: vec![([203, 0, 113, last], 5060).into()],
    };
    let question = world.service.servers_mut().take_wanted().remove(0);
    let found = Found::Servers(vec![server(1), server(2)]);
    world.service.handle_dns_answer(world.now, &question, Answer { found, ttl: Duration::from_secs(60) });
    let client = world.service.output().out.iter().find_map(|(item, _)| item.client).unwrap();
    assert_eq!(world.sent()[0].flow, Flow::to(Protocol::Tcp, "203.0.113.1:5060".parse().unwrap()));
    world.service.send_failed(world.now, client);
    assert_eq!(world.sent()[0].flow, Flow::to(Protocol::Udp, "203.0.113.1:5060".parse().unwrap()));
    let sent = world.run_until(4000);
    let second =
        sent.iter().find(|one| one.flow.peer.ip().to_string() == "203.0.113.2").expect("the next server");
    assert_eq!(second.flow.protocol, Protocol::Tcp);
}
