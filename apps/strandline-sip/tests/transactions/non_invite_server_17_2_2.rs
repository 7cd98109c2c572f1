use strandline_sip::transaction::{Protocol, Received};

use crate::harness::{World, request};

#[test]
fn retransmissions_get_the_response_until_timer_j() {
    let mut world = World::new();
    let bye = request("BYE", "z9hG4bKone");
    let id = world.server(&bye, Protocol::Udp);
    assert_eq!(world.receive(&bye), Received::Absorbed);
    assert!(world.sent().is_empty());
    assert!(world.respond(id, &bye, 100));
    world.sent();
    assert_eq!(world.receive(&bye), Received::Absorbed);
    assert_eq!(world.sent(), ["SIP/2.0 100 Trying"]);
    assert!(world.respond(id, &bye, 200));
    world.sent();
    assert!(world.run_until(31_999).is_empty(), "nothing is sent unasked");
    assert_eq!(world.receive(&bye), Received::Absorbed);
    assert_eq!(world.sent(), ["SIP/2.0 200 OK"]);
    assert!(!world.respond(id, &bye, 500), "a final response was sent already");
    world.run_until(32_000);
    assert!(world.is_empty());
}

#[test]
fn reliable_transport_ends_at_final_response() {
    let mut world = World::new();
    let bye = request("BYE", "z9hG4bKone");
    let id = world.server(&bye, Protocol::Tcp);
    assert!(world.respond(id, &bye, 200));
    assert!(world.is_empty());
}

#[test]
fn unanswered_transaction_can_be_forgotten() {
    let mut world = World::new();
    let bye = request("BYE", "z9hG4bKone");
    let id = world.server(&bye, Protocol::Udp);
    world.transactions.forget_server(id);
    assert!(world.is_empty());
    assert!(matches!(world.receive(&bye), Received::New(_)));
}
