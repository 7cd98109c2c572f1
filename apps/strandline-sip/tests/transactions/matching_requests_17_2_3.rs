use strandline_sip::transaction::{BeginError, Protocol, Received};

use crate::harness::{World, flow, request, request_with};

#[test]
fn branch_sender_and_method_tell_transactions_apart() {
    let mut world = World::new();
    let invite = request("INVITE", "z9hG4bKone");
    let id = world.server(&invite, Protocol::Udp);
    world.respond(id, &invite, 180);
    for other in [
        request("INVITE", "z9hG4bKtwo"),
        request("BYE", "z9hG4bKone"),
        invite.replace("client.example.com", "client.example.org"),
        invite.replace("client.example.com", "client.example.com:5060"),
        invite.replace("client.example.com", "192.0.2.1"),
    ] {
        assert!(matches!(world.receive(&other), Received::New(_)), "{other}");
    }
    // Everything else may differ, and hosts are compared without regard to case.
    let same =
        invite.replace("client.example.com", "CLIENT.example.com").replace("Call-ID: cid", "Call-ID: other");
    assert_eq!(world.receive(&same), Received::Absorbed);
    assert_eq!(world.receive(&invite.replace("z9hG4bK", "Z9HG4BK")), Received::Absorbed);
}

#[test]
fn without_cookie_rfc_2543_matching_applies() {
    let mut world = World::new();
    let invite = request("INVITE", "1");
    let id = world.server(&invite, Protocol::Udp);
    world.respond(id, &invite, 486);
    for other in [
        invite.replace("Call-ID: cid", "Call-ID: other"),
        invite.replace("tag=ft", "tag=other"),
        invite.replace("sip:b@example.com SIP", "sip:c@example.com SIP"),
        request_with("INVITE", "1", "6 "),
    ] {
        assert!(matches!(world.receive(&other), Received::New(_)), "{other}");
    }
    assert_eq!(world.receive(&invite), Received::Absorbed);
    // The ACK contains the tag of the response.
    let ack = request("ACK", "1").replace("To: <sip:b@example.com>", "To: <sip:b@example.com>;tag=tt");
    assert_eq!(world.receive(&ack), Received::Acknowledged(id));
    world.run_until(5000);
    assert!(world.is_empty());
}

#[test]
fn an_ack_of_nothing_is_passed_on() {
    let mut world = World::new();
    assert_eq!(world.receive(&request("ACK", "z9hG4bKone")), Received::Ack);
    // An ACK before any final response is absorbed.
    world.server(&request("INVITE", "z9hG4bKone"), Protocol::Udp);
    assert_eq!(world.receive(&request("ACK", "z9hG4bKone")), Received::Absorbed);
}

#[test]
fn there_are_never_more_than_the_limit() {
    let mut world = World::with_limit(2);
    for number in 0..2 {
        world.server(&request("OPTIONS", &format!("z9hG4bK{number}")), Protocol::Udp);
        world.client("OPTIONS", Protocol::Udp);
    }
    let arriving = world.arriving(&request("OPTIONS", "z9hG4bK9"));
    let begun = world.transactions.begin_server(arriving, flow(Protocol::Udp), None, 0);
    assert_eq!(begun, Err(BeginError::Full));
    assert_eq!(world.transactions.reserve_client(true, flow(Protocol::Udp), 0), Err(BeginError::Full));
    world.run_until(32_000);
    assert!(world.transactions.reserve_client(true, flow(Protocol::Udp), 0).is_ok());
}
