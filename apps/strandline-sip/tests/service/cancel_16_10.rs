use crate::harness::{Phone, World, response};

#[test]
fn cancel_is_answered_and_forwarded_on_ringing() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5060"));
    let mut world = World::new();
    world.register(&bob, "bob");
    let invite = alice.invite("bob", "1");
    let sent = world.invite(&alice, &invite);
    let cancel = alice.request("CANCEL", "sip:bob@example.com", "1", "");
    let answer = world.one(&alice, &cancel);
    assert_eq!((answer.first_line(), answer.line("CSeq")), ("SIP/2.0 200 OK", Some("1 CANCEL")));
    let rings = world.receive(&bob, &response(&sent[0].text, 180, "b"));
    assert!(rings.iter().any(|one| one.first_line() == "CANCEL sip:bob@192.0.2.2:5060 SIP/2.0"), "{rings:?}");
    let ended = world.receive(&bob, &response(&sent[0].text, 487, "b"));
    assert_eq!(ended[1].first_line(), "SIP/2.0 487 Request Terminated");
    let ack = alice.request("ACK", "sip:bob@example.com", "1", "");
    assert!(world.receive(&alice, &ack).is_empty());
    // A retransmission, which is possible over UDP.
    assert_eq!(world.one(&alice, &cancel).first_line(), "SIP/2.0 200 OK");
}

#[test]
fn cancel_of_nothing_is_481() {
    let alice = Phone::udp("192.0.2.1:5060");
    let mut world = World::new();
    let cancel = alice.request("CANCEL", "sip:bob@example.com", "1", "");
    assert_eq!(world.one(&alice, &cancel).first_line(), "SIP/2.0 481 Call/Transaction Does Not Exist");
}

/// A ringing phone whose caller has cancelled the call. Returns the phone and its INVITE.
fn cancelled() -> (World, Phone, String) {
    let (alice, bob) = (Phone::tcp("192.0.2.1:5060", 1), Phone::tcp("192.0.2.2:5060", 2));
    let mut world = World::new();
    world.service.connection_opened(1);
    world.register(&bob, "bob");
    let invite = world.invite(&alice, &alice.invite("bob", "1")).remove(0).text;
    world.receive(&bob, &response(&invite, 180, "b"));
    world.receive(&alice, &alice.request("CANCEL", "sip:bob@example.com", "1", ""));
    (world, bob, invite)
}

#[test]
fn silent_phone_after_cancel_counts_as_487() {
    let (mut world, _, _) = cancelled();
    let out = world.run_until(33_000);
    assert!(out.iter().any(|one| one.first_line() == "SIP/2.0 487 Request Terminated"), "{out:?}");
}

#[test]
fn late_cancel_spares_the_next_call() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::tcp("192.0.2.2:5060", 2));
    let (carol, dave) = (Phone::udp("192.0.2.3:5060"), Phone::udp("192.0.2.4:5060"));
    let mut world = World::new();
    world.register(&bob, "bob");
    world.register(&dave, "dave");
    let sent = world.invite(&alice, &alice.invite("bob", "1"));
    let busy = world.receive(&bob, &response(&sent[0].text, 486, "b"));
    assert!(busy.iter().any(|one| one.first_line() == "SIP/2.0 486 Busy Here"), "{busy:?}");
    // Alice's ACK is lost. Her transaction continues, but nothing else of her call does.
    let sent = world.invite(&carol, &carol.invite("dave", "2"));
    assert_eq!(world.one(&dave, &response(&sent[0].text, 180, "d")).flow, carol.0);
    let late = world.one(&alice, &alice.request("CANCEL", "sip:bob@example.com", "1", ""));
    assert_eq!((late.first_line(), late.flow), ("SIP/2.0 200 OK", alice.0));
    assert_eq!(world.one(&dave, &response(&sent[0].text, 200, "d")).first_line(), "SIP/2.0 200 OK");
}

#[test]
fn ringing_phone_after_cancel_counts_as_487() {
    let (mut world, bob, invite) = cancelled();
    world.run_until(20_000);
    world.receive(&bob, &response(&invite, 183, "b"));
    let out = world.run_until(33_000);
    assert!(out.iter().any(|one| one.first_line() == "SIP/2.0 487 Request Terminated"), "{out:?}");
}
