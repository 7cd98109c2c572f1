use strandline_sip::transaction::Protocol;

use crate::harness::{World, response};

#[test]
fn timer_a_doubles_until_timer_b() {
    let mut world = World::new();
    world.client("INVITE", Protocol::Udp);
    assert_eq!(world.sent(), ["INVITE sip:b@example.com SIP/2.0"]);
    assert_eq!(world.run_until(40_000), [500, 1500, 3500, 7500, 15_500, 31_500]);
    assert_eq!(world.events(), ["timed out"]);
    assert!(world.is_empty());
}

#[test]
fn nothing_is_sent_again_over_a_reliable_transport() {
    for protocol in [Protocol::Tcp, Protocol::Sctp] {
        let mut world = World::new();
        world.client("INVITE", protocol);
        world.sent();
        assert!(world.run_until(31_999).is_empty());
        assert!(world.events().is_empty());
        world.run_until(32_000);
        assert_eq!(world.events(), ["timed out"]);
    }
}

#[test]
fn provisional_response_stops_retransmissions() {
    let mut world = World::new();
    let (_, invite) = world.client("INVITE", Protocol::Udp);
    world.run_until(600);
    assert!(world.answer(&response(&invite, 180)));
    assert!(world.answer(&response(&invite, 183)));
    assert!(world.run_until(60_000).is_empty());
    assert!(world.events().is_empty());
}

#[test]
fn timer_c_restarts_on_provisional_except_100() {
    let mut world = World::new();
    let (_, invite) = world.client("INVITE", Protocol::Udp);
    assert!(world.answer(&response(&invite, 180)));
    world.run_until(180_000);
    assert!(world.answer(&response(&invite, 180)));
    world.run_until(200_000);
    assert!(world.answer(&response(&invite, 100)));
    world.run_until(364_000);
    assert!(world.events().is_empty());
    world.run_until(365_000);
    assert_eq!(world.events(), ["ringing too long"]);
}

#[test]
fn error_is_acknowledged_each_time_and_passed_once() {
    let mut world = World::new();
    let (_, invite) = world.client("INVITE", Protocol::Udp);
    world.sent();
    assert!(world.answer(&response(&invite, 486)));
    let acks = world.sent_whole();
    let [ack] = &acks[..] else { panic!("{acks:?}") };
    // Section 17.1.1.3: the request URI, the topmost Via, From, Call-ID, the number of CSeq and the Routes
    // come from the INVITE, and To from the response.
    let via = invite.lines().find(|line| line.starts_with("Via")).unwrap();
    for line in [
        "ACK sip:b@example.com SIP/2.0",
        via,
        "Route: <sip:next.example.com;lr>",
        "From: <sip:a@example.com>;tag=ft",
        "To: <sip:b@example.com>;tag=tt",
        "Call-ID: cid",
        "CSeq: 5 ACK",
        "Content-Length: 0",
    ] {
        assert!(ack.lines().any(|found| found == line), "{line} is not in {ack}");
    }
    assert!(!world.answer(&response(&invite, 486)));
    assert_eq!(world.sent_whole(), acks);
    assert!(world.run_until(31_999).is_empty());
    assert!(!world.answer(&response(&invite, 486)));
    assert_eq!(world.sent(), ["ACK sip:b@example.com SIP/2.0"]);
    world.run_until(32_000);
    assert_eq!(world.events(), ["over"]);
    assert!(world.is_empty());
}

#[test]
fn over_a_reliable_transport_timer_d_is_zero() {
    let mut world = World::new();
    let (_, invite) = world.client("INVITE", Protocol::Tcp);
    world.sent();
    assert!(world.answer(&response(&invite, 404)));
    assert_eq!(world.sent(), ["ACK sip:b@example.com SIP/2.0"]);
    assert_eq!(world.events(), ["over"]);
    assert!(world.is_empty());
}

#[test]
fn a_late_provisional_response_is_absorbed() {
    let mut world = World::new();
    let (_, invite) = world.client("INVITE", Protocol::Udp);
    assert!(world.answer(&response(&invite, 486)));
    assert!(!world.answer(&response(&invite, 180)));
}
