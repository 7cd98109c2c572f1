use strandline_sip::service::Settings;
use strandline_sip::transaction::TransactionLimits;

use crate::harness::{Phone, Sent, World, in_dialog, response, settings};

fn phone() -> Phone {
    Phone::udp("192.0.2.66:5060")
}

#[test]
fn call_flood_stays_within_its_limit() {
    let limits = TransactionLimits { servers_max: 100, clients_max: 100, ..TransactionLimits::default() };
    let mut world = World::with(Settings { limits, ..settings() });
    world.register(&Phone::udp("192.0.2.2:5060"), "bob");
    let mut refused = 0;
    for number in 0..1000 {
        let sent = world.receive(&phone(), &phone().invite("bob", &format!("flood{number}")));
        refused += usize::from(sent[0].first_line().starts_with("SIP/2.0 503"));
        let (servers, clients) = world.service.transactions().counts();
        assert!(servers <= 100 && clients <= 100);
    }
    assert_eq!(refused, 900);
    world.run_until(200_000);
    assert_eq!(world.service.transactions().counts(), (0, 0));
}

#[test]
fn unanswerable_messages_are_dropped() {
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
    assert_eq!(world.service.transactions().counts(), (0, 0));
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

/// The bytes received from a source, and the bytes sent to it.
fn exchanged(world: &mut World, count: usize, text: impl Fn(usize) -> String) -> (usize, usize) {
    let (mut came, mut sent) = (0, 0);
    for number in 0..count {
        let text = text(number);
        came += text.len();
        sent += world.receive(&phone(), &text).iter().map(|sent| sent.text.len()).sum::<usize>();
    }
    (came, sent)
}

/// Bytes that may be sent beyond what was received and 64 bytes for each request.
const BEYOND_MAX: usize = 16 << 10;

#[test]
fn unproved_udp_source_gets_little_more() {
    let mut world = World::new();
    for number in 0..9 {
        let from = Phone::udp(&format!("192.0.2.{}:5060", number + 1));
        let contact = format!("Contact: <sip:bob-{}@192.0.2.{number}>\r\n", "x".repeat(1500));
        let register = from.register("bob", 1, &contact).replace("reg-bob", &format!("reg{number}"));
        world.receive(&from, &register);
    }
    // A short request would get a response with all contacts of a user.
    let list = |number: usize| phone().register("bob", 100 + number as u32, "").replace("reg-bob", "forged");
    let (came, sent) = exchanged(&mut world, 1000, list);
    assert!(sent <= came + 1000 * 64 + BEYOND_MAX, "{sent} for {came}");
    // A rejection is always sent if it is larger only by a tag and the source address.
    let mut world = World::new();
    let (came, sent) = exchanged(&mut world, 1000, |number| phone().invite("nobody", &format!("n{number}")));
    assert!(sent > 0 && sent <= came + 1000 * 64, "{sent} for {came}");
    let refused = world.one(&phone(), &phone().invite("nobody", "last"));
    assert!(refused.first_line().starts_with("SIP/2.0 404"));
}

#[test]
fn tcp_and_trusted_networks_are_unlimited() {
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
    assert_eq!(world.service.transactions().counts(), (0, 0));
}

/// The traffic that the owner of a forged source receives. INVITEs come from that source, the callee sends
/// the responses from `answers` after the given milliseconds, and nothing is acknowledged. Returns the bytes
/// received from the source and sent to it within `secs` seconds.
fn reflected(count: usize, secs: u64, answers: impl Fn(&str) -> Vec<(u64, String)>) -> (usize, usize) {
    let mut world = World::new();
    let bob = Phone::udp("192.0.2.2:5060");
    world.register(&bob, "bob");
    let (mut came, mut went, mut due) = (0, 0, Vec::new());
    let mut take = |sent: Vec<Sent>, due: &mut Vec<(u64, String)>| {
        for one in sent {
            if one.flow.peer.ip() == phone().0.peer.ip() {
                went += one.text.len();
            } else if one.first_line().starts_with("INVITE ") {
                due.extend(answers(&one.text));
            }
        }
    };
    for number in 0..count {
        let invite =
            phone().invite("bob", &format!("f{number}")).replace("ID: call", &format!("ID: f{number}"));
        came += invite.len();
        take(world.receive(&phone(), &invite), &mut due);
    }
    // An attacker who cooperates with the callee knows its tags and the tokens of dialogs.
    for (_, answer) in
        due.iter().filter(|(_, answer)| !answer.starts_with("SIP/2.0 1")).take(1).cloned().collect::<Vec<_>>()
    {
        let ack = in_dialog("ACK", &answer, "sip:bob@192.0.2.2:5060", &phone(), 1, true);
        came += ack.len();
        take(world.receive(&phone(), &ack), &mut due);
    }
    let mut step = 0;
    while step <= secs * 1000 {
        let sent = world.run_and_try_until(step);
        take(sent, &mut Vec::new());
        let now: Vec<String> =
            due.iter().filter(|(at, _)| *at == step).map(|(_, answer)| answer.clone()).collect();
        for answer in now {
            let sent = world.receive(&bob, &answer);
            take(sent, &mut Vec::new());
        }
        step += 100;
    }
    (came, went)
}

/// A padded response.
fn long(request: &str, code: u16) -> String {
    let more = format!("X: {}\r\nContent-Length: 0\r\n", "x".repeat(1000));
    response(request, code, "bob").replace("Content-Length: 0\r\n", &more)
}

#[test]
fn forged_source_gets_little_of_a_call() {
    const CALLS: usize = 100;
    let repeated = [0, 500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500];
    // Rejected calls, whose responses timer G retransmits; accepted calls, whose callee retransmits; and
    // calls that ring until they are given up.
    let refused = reflected(CALLS, 40, |invite| vec![(0, long(invite, 486))]);
    let taken = reflected(CALLS, 40, |invite| repeated.map(|at| (at, long(invite, 200))).to_vec());
    let rings = |invite: &str| (0..20).map(|number| (number * 1000, long(invite, 183))).collect();
    let ringing = reflected(CALLS, 240, rings);
    for ((came, went), secs) in [(refused, 40), (taken, 40), (ringing, 240)] {
        let most = came + CALLS * 64 + BEYOND_MAX + secs * (2 << 10);
        assert!(went <= most, "{went} for {came}");
        assert!(went > BEYOND_MAX / 2, "what may go does: {went}");
    }
}

#[test]
fn redirections_are_limited_as_well() {
    let mut world = World::with(Settings { mode: strandline_sip::service::Mode::Redirect, ..settings() });
    let bob = Phone::udp("192.0.2.2:5060");
    world.register_with(&bob, "bob", &format!("Contact: <sip:bob-{}@192.0.2.2>\r\n", "x".repeat(1500)));
    let (came, sent) = exchanged(&mut world, 1000, |number| phone().invite("bob", &format!("r{number}")));
    assert!(sent > BEYOND_MAX / 2 && sent <= came + 1000 * 64 + BEYOND_MAX, "{sent} for {came}");
}

/// An INVITE with `bytes` more, half in a header and half in a body. All have the same Call-ID and different
/// branches.
fn large_invite(from: &Phone, to: &str, number: usize, bytes: usize) -> String {
    let body = "b".repeat(bytes / 2);
    let more = format!("X: {}\r\nContent-Length: {}\r\n\r\n{body}", "h".repeat(bytes / 2), body.len());
    from.invite(to, &format!("large{number}")).replace("Content-Length: 0\r\n\r\n", &more)
}

#[test]
fn ringing_large_calls_leave_little_behind() {
    let mut world = World::new();
    let (alice, bob) = (Phone::tcp("192.0.2.66:4000", 1), Phone::tcp("192.0.2.2:4000", 2));
    world.register(&bob, "bob");
    for number in 0..10_000 {
        let sent = world.invite(&alice, &large_invite(&alice, "bob", number, 100_000));
        assert!(sent[0].text.len() > 100_000 && sent[0].flow == bob.0, "{number}: {}", sent[0].first_line());
        if number % 10 == 0 {
            world.receive(&bob, &response(&sent[0].text, 180, "bob"));
        }
    }
    assert_eq!(world.service.transactions().counts(), (10_000, 10_000));
    let kept = world.service.transactions().kept_bytes();
    assert!((1000..20 << 20).contains(&kept), "{kept}");
    world.run_until(400_000);
    assert_eq!(
        (world.service.transactions().counts(), world.service.transactions().kept_bytes()),
        ((0, 0), 0)
    );
}

#[test]
fn large_udp_calls_have_half_the_memory() {
    const BYTES_MAX: usize = 64 << 20;
    let limits = TransactionLimits { bytes_max: BYTES_MAX, ..TransactionLimits::default() };
    let mut world = World::with(Settings { limits, ..settings() });
    let (bob, carol) = (Phone::udp("192.0.2.2:5060"), Phone::tcp("192.0.2.3:4000", 3));
    let alice = Phone::tcp("192.0.2.1:4000", 1);
    world.register(&bob, "bob");
    world.register(&carol, "carol");
    // An earlier call, which ends meanwhile.
    let invite = world.invite(&alice, &alice.invite("carol", "before"));
    let ok = world.one(&carol, &response(&invite[0].text, 200, "carol"));
    let mut refused = 0;
    for number in 0..10_000 {
        let sent = world.receive(&phone(), &large_invite(&phone(), "bob", number, 50_000));
        refused += usize::from(sent.iter().any(|one| one.first_line().starts_with("SIP/2.0 503")));
        let kept = world.service.transactions().kept_bytes();
        assert!(kept <= BYTES_MAX / 2 + (1 << 16), "{kept}");
    }
    assert!((9000..9999).contains(&refused), "{refused}");
    assert_eq!(world.service.counters().crowded, 10_000 - (10_000 - refused as u64));
    for number in 0..1000 {
        let sent = world.invite(&alice, &alice.invite("carol", &format!("usual{number}")));
        assert!(sent[0].first_line().starts_with("INVITE "), "{number}: {}", sent[0].text);
    }
    let bye = in_dialog("BYE", &ok.text, "sip:carol@192.0.2.3:4000;transport=tcp", &alice, 2, true);
    assert!(world.one(&alice, &bye).first_line().starts_with("BYE "));
    // All memory is released.
    world.run_until(100_000);
    assert_eq!(
        (world.service.transactions().counts(), world.service.transactions().kept_bytes()),
        ((0, 0), 0)
    );
    let sent = world.receive(&phone(), &large_invite(&phone(), "bob", 10_000, 50_000));
    assert!(sent.iter().any(|one| one.first_line().starts_with("INVITE ")), "{sent:?}");
}
