use strandline_sip::service::Settings;
use strandline_sip::transaction::TransactionLimits;

use crate::harness::{Phone, World, settings};

fn phone() -> Phone {
    Phone::udp("192.0.2.66:5060")
}

#[test]
fn a_flood_of_calls_takes_no_more_than_the_limit() {
    let limits = TransactionLimits { servers_max: 100, clients_max: 100 };
    let mut world = World::with(Settings { limits, ..settings() });
    world.register(&Phone::udp("192.0.2.2:5060"), "bob");
    let mut refused = 0;
    for number in 0..1000 {
        let sent = world.receive(&phone(), &phone().invite("bob", &format!("flood{number}")));
        refused += usize::from(sent[0].first_line().starts_with("SIP/2.0 503"));
        let (servers, clients) = world.service.transactions();
        assert!(servers <= 100 && clients <= 100);
    }
    assert_eq!(refused, 900);
    world.run_until(200_000);
    assert_eq!(world.service.transactions(), (0, 0));
}

#[test]
fn what_can_not_be_answered_is_dropped_and_what_can_is_answered_shortly() {
    let mut world = World::new();
    let invite = phone().invite("bob", "1");
    for (text, status) in [
        (invite.replace("Via:", "X-Via:"), None),
        (invite.replace("INVITE", "ACK"), None),
        ("\0\0\0\0".to_owned(), None),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), None),
        (invite.replace("Call-ID: call\r\n", ""), Some("SIP/2.0 400")),
        (invite.replace("CSeq: 1", "CSeq: x"), Some("SIP/2.0 400")),
        (invite.replace("SIP/2.0\r\nVia", "SIP/3.0\r\nVia"), Some("SIP/2.0 505")),
        (invite.replace("Content-Length: 0", "Content-Length: 99"), Some("SIP/2.0 400")),
        (invite.replace("Max-Forwards: 70", "Max-Forwards: 300"), Some("SIP/2.0 400")),
        (invite.replace("Contact", &format!("{}Contact", "X: y\r\n".repeat(300))), Some("SIP/2.0 513")),
    ] {
        let sent = world.receive(&phone(), &text);
        match status {
            None => assert!(sent.is_empty(), "{text}: {sent:?}"),
            Some(status) => {
                assert!(sent[0].first_line().starts_with(status), "{text}: {sent:?}");
                assert!(sent[0].text.len() <= text.len() + 120, "{} for {}", sent[0].text.len(), text.len());
            }
        }
    }
    assert_eq!(world.service.transactions(), (0, 0));
}

#[test]
fn responses_that_nobody_asked_for_go_nowhere() {
    let mut world = World::new();
    for branch in ["z9hG4bK", "", "z9hG4bK000000000000000000000000.0000000000000000"] {
        let text = format!(
            "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 198.51.100.1;branch={branch}x\r\nVia: SIP/2.0/UDP 192.0.2.9\r\n\
             From: <sip:a@example.com>;tag=1\r\nTo: <sip:b@example.com>;tag=2\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\n\
             Content-Length: 0\r\n\r\n"
        );
        assert!(world.receive(&phone(), &text).is_empty(), "{branch}");
    }
}

#[test]
fn a_forged_via_does_not_send_answers_elsewhere() {
    let mut world = World::new();
    let text = phone()
        .invite("nobody", "1")
        .replace("192.0.2.66:5060;branch", "203.0.113.1:5060;received=203.0.113.1;branch");
    let sent = world.one(&phone(), &text);
    assert_eq!(sent.flow.peer.ip(), phone().0.peer.ip());
    assert!(sent.line("Via").unwrap().contains("received=192.0.2.66"), "{}", sent.text);
}

/// Bytes that a source sent, and that were sent there.
fn exchanged(world: &mut World, count: usize, text: impl Fn(usize) -> String) -> (usize, usize) {
    let (mut came, mut sent) = (0, 0);
    for number in 0..count {
        let text = text(number);
        came += text.len();
        sent += world.receive(&phone(), &text).iter().map(|sent| sent.text.len()).sum::<usize>();
    }
    (came, sent)
}

/// Beyond what came, and 64 bytes for each request.
const BEYOND_MAX: usize = 16 << 10;

#[test]
fn who_may_be_somebody_else_gets_no_more_over_udp_than_came_and_a_little() {
    let mut world = World::new();
    for number in 0..9 {
        let from = Phone::udp(&format!("192.0.2.{}:5060", number + 1));
        let contact = format!("Contact: <sip:bob-{}@192.0.2.{number}>\r\n", "x".repeat(1500));
        let register = from.register("bob", 1, &contact).replace("reg-bob", &format!("reg{number}"));
        world.receive(&from, &register);
    }
    // A short question would be answered with all contacts of a user.
    let list = |number: usize| phone().register("bob", 100 + number as u32, "").replace("reg-bob", "forged");
    let (came, sent) = exchanged(&mut world, 1000, list);
    assert!(sent <= came + 1000 * 64 + BEYOND_MAX, "{sent} for {came}");
    // What is refused is answered, always, if the answer isn't larger by more than a tag and where it came from.
    let mut world = World::new();
    let (came, sent) = exchanged(&mut world, 1000, |number| phone().invite("nobody", &format!("n{number}")));
    assert!(sent > 0 && sent <= came + 1000 * 64, "{sent} for {came}");
    let refused = world.one(&phone(), &phone().invite("nobody", "last"));
    assert!(refused.first_line().starts_with("SIP/2.0 404"));
}

#[test]
fn over_tcp_and_from_trusted_networks_nothing_is_weighed() {
    let relay =
        strandline_sip::service::Relay { open: false, from: vec![("192.0.2.0".parse().unwrap(), 24)] };
    for (mut world, phone) in [
        (World::new(), Phone::tcp("203.0.113.1:4000", 3)),
        (World::with(Settings { relay, ..settings() }), phone()),
    ] {
        let long = format!("Contact: <sip:bob-{}@192.0.2.7>\r\n", "x".repeat(1500));
        world.register_with(&phone, "bob", &long);
        for number in 0..100 {
            assert_eq!(world.one(&phone, &phone.register("bob", 2 + number, "")).lines("Contact").len(), 1);
        }
    }
}

#[test]
fn an_ack_that_comes_too_early_leaves_nothing() {
    let mut world = World::new();
    world.register(&Phone::udp("192.0.2.2:5060"), "bob");
    world.receive(&phone(), &phone().invite("bob", "1"));
    assert!(world.receive(&phone(), &phone().request("ACK", "sip:bob@example.com", "1", "")).is_empty());
    let out = world.run_until(40_000);
    assert!(out.iter().any(|one| one.first_line() == "SIP/2.0 408 Request Timeout"), "{out:?}");
    world.run_until(100_000);
    assert_eq!(world.service.transactions(), (0, 0));
}
