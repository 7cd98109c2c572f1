//! The end of a server: transactions that have begun are completed.

use crate::harness::{Phone, World, in_dialog, response};

#[test]
fn caller_answered_while_closing_can_acknowledge() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5060"));
    let mut world = World::new();
    world.register(&bob, "bob");
    let sent = world.invite(&alice, &alice.invite("bob", "1"));
    world.service.setup_mut().set_draining(true);
    assert!(!world.service.contexts().are_answered() && !world.service.awaits_ack(world.now));
    world.run_until(10_000);
    let ok = world.one(&bob, &response(&sent[0].text, 200, "bob"));
    assert!(world.service.contexts().are_answered() && world.service.awaits_ack(world.now));
    world.run_until(11_900);
    assert!(world.service.awaits_ack(world.now));
    let ack = world.one(&alice, &in_dialog("ACK", &ok.text, "sip:bob@192.0.2.2:5060", &alice, 1, true));
    assert_eq!(ack.flow.peer, bob.0.peer);
    world.run_until(12_000);
    assert!(!world.service.awaits_ack(world.now), "no longer than that");
}

#[test]
fn caller_refused_while_closing_can_acknowledge() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5060"));
    let mut world = World::new();
    world.register(&bob, "bob");
    world.invite(&alice, &alice.invite("bob", "1"));
    world.service.setup_mut().set_draining(true);
    world.run_until(32_500);
    assert!(world.service.contexts().are_answered() && world.service.awaits_ack(world.now), "408");
    world.run_until(35_000);
    assert!(!world.service.awaits_ack(world.now));
}
