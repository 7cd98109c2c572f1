//! RFC 6026: the state after a 2xx response to an INVITE.

use strandline_sip::transaction::{Protocol, Received};

use crate::harness::{World, request, response};

#[test]
fn client_passes_every_2xx_until_timer_m() {
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        let mut world = World::new();
        let (_, invite) = world.client("INVITE", protocol);
        world.sent();
        let ok = response(&invite, 200);
        assert!(world.answer(&ok));
        world.run_until(10_000);
        assert!(world.answer(&ok));
        // Another branch, forked by a proxy further on.
        assert!(world.answer(&ok.replace("tag=tt", "tag=other")));
        assert!(!world.answer(&response(&invite, 486)), "too late");
        assert!(world.sent().is_empty(), "a 2xx is acknowledged by whoever called");
        world.run_until(31_999);
        assert!(world.answer(&ok));
        world.run_until(32_000);
        assert!(!world.answer(&ok), "a stray response goes nowhere (section 8.9)");
        assert_eq!(world.events(), ["over"]);
    }
}

#[test]
fn server_repeats_2xx_until_timer_l() {
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        let mut world = World::new();
        let invite = request("INVITE", "z9hG4bKone");
        let id = world.server(&invite, protocol);
        assert!(world.respond(id, &invite, 200));
        assert_eq!(world.sent(), ["SIP/2.0 200 OK"]);
        assert_eq!(world.receive(&invite), Received::Absorbed);
        assert!(world.sent().is_empty(), "whoever answered sends it again");
        assert!(world.respond(id, &invite, 200));
        assert!(!world.respond(id, &invite, 180));
        assert!(!world.respond(id, &invite, 486));
        assert_eq!(world.sent(), ["SIP/2.0 200 OK"]);
        assert!(world.run_until(31_999).is_empty());
        assert_eq!(world.receive(&invite), Received::Absorbed);
        world.run_until(32_000);
        assert!(world.is_empty());
    }
}

#[test]
fn ack_with_the_invites_branch_passes() {
    let mut world = World::new();
    let invite = request("INVITE", "1");
    let id = world.server(&invite, Protocol::Udp);
    assert!(world.respond(id, &invite, 200));
    assert_eq!(world.receive(&request("ACK", "1")), Received::Ack);
}
