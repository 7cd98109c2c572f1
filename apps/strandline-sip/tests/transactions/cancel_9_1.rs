use strandline_sip::transaction::{Protocol, Received};

use crate::harness::{World, flow, own_request, request, response};

#[test]
fn cancel_waits_for_a_provisional_response() {
    let mut world = World::new();
    let (id, invite) = world.client("INVITE", Protocol::Udp);
    world.sent();
    assert!(!world.transactions.cancel(world.now, id, &mut world.out));
    assert!(world.answer(&response(&invite, 100)));
    assert!(world.transactions.cancel(world.now, id, &mut world.out));
    assert!(!world.transactions.cancel(world.now, id, &mut world.out), "once is enough");
    let sent = world.sent_whole();
    let [cancel] = &sent[..] else { panic!("{sent:?}") };
    let line = |name: &str| invite.lines().find(|line| line.starts_with(name)).unwrap();
    for line in ["CANCEL sip:b@example.com SIP/2.0", "CSeq: 5 CANCEL", "Max-Forwards: 70"]
        .into_iter()
        .chain(["Via", "Route", "From", "To", "Call-ID"].map(line))
    {
        assert!(cancel.lines().any(|found| found == line), "{line} is not in {cancel}");
    }
}

#[test]
fn cancel_is_retransmitted_and_its_response_absorbed() {
    let mut world = World::new();
    let (id, invite) = world.client("INVITE", Protocol::Udp);
    world.answer(&response(&invite, 180));
    world.transactions.cancel(world.now, id, &mut world.out);
    let cancel = world.sent_whole().pop().unwrap();
    assert_eq!(world.run_until(2000), [500, 1500]);
    assert!(!world.answer(&response(&cancel, 200)));
    assert!(world.run_until(10_000).is_empty());
    assert!(world.answer(&response(&invite, 487)));
    assert_eq!(world.sent(), ["ACK sip:b@example.com SIP/2.0"]);
}

#[test]
fn unanswered_invite_after_cancel_ends_after_64_t1() {
    let mut world = World::new();
    let (id, invite) = world.client("INVITE", Protocol::Tcp);
    world.answer(&response(&invite, 180));
    world.run_until(10_000);
    world.transactions.cancel(world.now, id, &mut world.out);
    world.run_until(41_999);
    assert!(world.events().is_empty());
    world.run_until(42_000);
    assert_eq!(world.events(), ["timed out"]);
    assert!(world.is_empty());
}

#[test]
fn a_cancel_finds_the_invite_with_its_branch() {
    let mut world = World::new();
    let invite = request("INVITE", "z9hG4bKone");
    let id = world.server(&invite, Protocol::Udp);
    assert_eq!(world.receive(&request("CANCEL", "z9hG4bKone")), Received::Cancel(Some(id)));
    assert_eq!(world.receive(&request("CANCEL", "z9hG4bKtwo")), Received::Cancel(None));
    // Only an INVITE can be cancelled.
    world.server(&request("BYE", "z9hG4bKtwo"), Protocol::Udp);
    assert_eq!(world.receive(&request("CANCEL", "z9hG4bKtwo")), Received::Cancel(None));
}

#[test]
fn large_invite_keeps_enough_for_cancel_and_ack() {
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        let mut world = World::new();
        let id = world.transactions.reserve_client(true, flow(protocol), 42).unwrap();
        let usual = own_request("INVITE", id);
        // More lines than a received message may have: this server may exceed its own limits.
        let more = format!("{}Content-Length: 50000", "X: y\r\n".repeat(300));
        let large = usual.replace("Content-Length: 0", &more) + &"b".repeat(50_000);
        world.transactions.start_client(world.now, id, large.as_bytes());
        let kept = world.transactions.kept_bytes();
        assert_eq!(kept < 2000, protocol == Protocol::Tcp, "{kept}");
        world.answer(&response(&usual, 180));
        assert!(world.transactions.kept_bytes() < 2000, "{}", world.transactions.kept_bytes());
        assert!(world.transactions.cancel(world.now, id, &mut world.out));
        world.answer(&response(&usual, 487));
        let sent = world.sent_whole();
        assert_eq!(sent.len(), 2, "{sent:?}");
        for (message, method) in sent.iter().zip(["CANCEL", "ACK"]) {
            assert!(
                message.starts_with(&format!("{method} sip:b@example.com SIP/2.0\r\nVia: ")),
                "{message}"
            );
            assert!(message.contains("Route: <sip:next.example.com;lr>\r\n"), "{message}");
            assert!(
                message.contains(&format!("CSeq: 5 {method}\r\n")) && !message.contains("X:"),
                "{message}"
            );
        }
        assert!(sent[1].contains("To: <sip:b@example.com>;tag=tt\r\n"), "{}", sent[1]);
        world.run_until(100_000);
        assert!(world.is_empty());
    }
}
